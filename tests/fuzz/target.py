"""What a fuzz target is, and what counts as a finding: whatever a target raises."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One layer under arbitrary bytes.

    Attributes:
        run: takes one input; raises on a finding: an exception outside the documented hierarchy, a broken bound, or a
            difference from an oracle.
        seeds: inputs made of what real clients send.
        max_bytes: longest input [B].
        memory_bytes: what one input may make Python hold at its peak [B].
        steps_per_byte: lines of our code that one byte of input may cost; the first 20,000 are free.
    """

    run: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    max_bytes: int
    memory_bytes: int
    steps_per_byte: int

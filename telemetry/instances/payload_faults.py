"""What listings show of a client whose payloads are not well-formed OTLP."""

from typing import Final, NamedTuple

from telemetry.validate import fault_of

ALWAYS_READ_BYTES: Final = 16_384
"""Payloads up to this size, as nearly all are, are examined one by one [B]."""
READ_AGAIN_MS: Final = 60_000
"""How long the reason of a client's earlier payload stands for its later, larger ones [ms]: to find it takes several
times as long as to see that there is one.
"""


class PayloadFaults(NamedTuple):
    """The malformed payloads of one client.

    Attributes:
        pushes: number of pushes with one.
        reason: of the latest that was examined; see `telemetry.validate`.
        detail: a sentence about it.
        last_ms: time of the latest [ms].
        read_ms: time of the latest that was examined [ms].
    """

    pushes: int
    reason: str
    detail: str
    last_ms: int
    read_ms: int


def with_fault(faults: PayloadFaults | None, metrics: bytes, now_ms: int) -> PayloadFaults:
    """`faults` with another payload that `validate_metrics` refused, at `now_ms` [ms]."""
    if faults is not None and len(metrics) > ALWAYS_READ_BYTES and 0 <= now_ms - faults.read_ms < READ_AGAIN_MS:
        return faults._replace(pushes=faults.pushes + 1, last_ms=now_ms)
    reason, detail = fault_of(metrics)
    return PayloadFaults(1 if faults is None else faults.pushes + 1, reason, detail, now_ms, now_ms)

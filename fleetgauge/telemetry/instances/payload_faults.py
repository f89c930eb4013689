"""Faults of clients whose payloads are not well-formed OTLP, for listings."""

from typing import NamedTuple


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

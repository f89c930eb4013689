"""Decisions on a new connection (admit, wait, refuse), and the errors of refused ones."""

from dataclasses import dataclass
from typing import TypeAlias

from fleetgauge.base.errors import FleetgaugeError


class TooManyConnectionsError(FleetgaugeError):
    """An address has reached its maximum of connections (`max.connections.per.ip`, or its override).

    Attributes:
        ip: the address.
        count: the maximum.
    """

    def __init__(self, ip: str, count: int) -> None:
        super().__init__(ip, count)
        self.ip = ip
        self.count = count

    def __str__(self) -> str:
        return f"Too many connections from {self.ip} (maximum = {self.count})"


class ConnectionThrottledError(FleetgaugeError):
    """An address opens connections faster than its limit (`connection_creation_rate`).

    Attributes:
        ip: the address.
        start_throttle_time_ms: time of the decision [ms, monotonic].
        throttle_time_ms: how long to keep the refused connection open before closing it [ms], to delay a client that
            reconnects at once.
    """

    def __init__(self, ip: str, start_throttle_time_ms: int, throttle_time_ms: int) -> None:
        super().__init__(ip, start_throttle_time_ms, throttle_time_ms)
        self.ip = ip
        self.start_throttle_time_ms = start_throttle_time_ms
        self.throttle_time_ms = throttle_time_ms

    def __str__(self) -> str:
        return f"{self.ip} throttled for {self.throttle_time_ms}"


@dataclass(frozen=True, slots=True)
class Admit:
    """The connection is counted, until `ConnectionQuotas.dec`."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The connection has to wait.

    Attributes:
        ms: how long [ms]; None: until there is room (`ConnectionQuotas.subscribe`).
    """

    ms: int | None


@dataclass(frozen=True, slots=True)
class Refuse:
    """The connection has to be closed, and is not counted.

    Attributes:
        error: the reason; it may be raised.
    """

    error: TooManyConnectionsError | ConnectionThrottledError


Decision: TypeAlias = Admit | Wait | Refuse

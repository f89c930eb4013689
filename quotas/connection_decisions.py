"""What may become of a connection under quotas, and why one is refused."""

from dataclasses import dataclass
from typing import TypeAlias

from base.errors import FleetgaugeError


class TooManyConnectionsError(FleetgaugeError):
    """An address has as many connections as it may have (`max.connections.per.ip`, or its override).

    Attributes:
        ip: the address.
        count: how many it may have.
    """

    def __init__(self, ip: str, count: int) -> None:
        super().__init__(ip, count)
        self.ip = ip
        self.count = count

    def __str__(self) -> str:
        return f"Too many connections from {self.ip} (maximum = {self.count})"


class ConnectionThrottledError(FleetgaugeError):
    """An address makes connections faster than it may (`connection_creation_rate`).

    Attributes:
        ip: the address.
        start_throttle_time_ms: when that was decided [ms, monotonic].
        throttle_time_ms: for how long the refused connection should be held before it is closed [ms], so that a client
            that connects again at once comes later.
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
        ms: for how long [ms]; None until there is room (`ConnectionQuotas.subscribe`).
    """

    ms: int | None


@dataclass(frozen=True, slots=True)
class Refuse:
    """The connection is to be closed, and is not counted.

    Attributes:
        error: why; it may be raised.
    """

    error: TooManyConnectionsError | ConnectionThrottledError


Decision: TypeAlias = Admit | Wait | Refuse

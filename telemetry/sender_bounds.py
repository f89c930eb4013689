"""What all clients of one address, and all of one principal, may send together: payload bytes, and new instances.

The interval bounds one instance id, and a client may make up as many ids as it likes. These bounds are for that: far
above what a fleet behind one NAT sends, far below what fills a disk. Half of the bytes is kept for the clients that
keep to their interval. Times are monotonic [ms].
"""

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from telemetry.plugin_api import RequestContext
from wire.network import network_of
from wire.principal import ANONYMOUS

_logger = logging.getLogger(__name__)

BYTES_BURST_S: Final = 8
"""Payload bytes may come at once that the rate allows in this time [s]."""
INSTANCES_BURST_S: Final = 160
"""Likewise for new instances: after a restart all clients of a NAT are new at once [s]."""
MAX_SENDERS: Final = 16_384
"""Addresses, and as many principals, that are remembered."""

_WARNING_INTERVAL_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderLimits:
    """The rates; 0 is no limit. Bursts are `BYTES_BURST_S` and `INSTANCES_BURST_S` of them.

    Attributes:
        bytes_per_ip: payload bytes as received [B/s] (`telemetry.max.byte.rate.per.ip`).
        bytes_per_principal: likewise, of an authenticated principal (`telemetry.max.byte.rate.per.principal`).
        new_instances_per_ip: client instances that this node did not know [1/s]
            (`telemetry.max.new.instance.rate.per.ip`).
        new_instances_per_principal: likewise, of an authenticated principal
            (`telemetry.max.new.instance.rate.per.principal`).
    """

    bytes_per_ip: int = 32 << 20
    bytes_per_principal: int = 128 << 20
    new_instances_per_ip: int = 100
    new_instances_per_principal: int = 400


class Allowance:
    """What one address or principal may still send: two token buckets that fill with time."""

    __slots__ = ("_byte_rate", "_bytes", "_bytes_ms", "_instance_rate", "_instances", "_instances_ms")

    def __init__(self, byte_rate: int, instance_rate: int, now_ms: int) -> None:
        self._byte_rate = byte_rate
        self._instance_rate = instance_rate
        # In thousandths, so that a millisecond adds a whole number.
        self._bytes = byte_rate * BYTES_BURST_S * 1_000
        self._instances = instance_rate * INSTANCES_BURST_S * 1_000
        self._bytes_ms = self._instances_ms = now_ms

    def has_bytes(self, now_ms: int, keeps_interval: bool) -> bool:
        """True if a payload may be taken; of a client that does not keep to its interval while half is left."""
        rate = self._byte_rate
        if not rate:
            return True
        full = rate * BYTES_BURST_S * 1_000
        self._bytes = min(full, self._bytes + (now_ms - self._bytes_ms) * rate)
        self._bytes_ms = now_ms
        return self._bytes > (0 if keeps_interval else full // 2)

    def take_bytes(self, payload_bytes: int) -> None:
        """Notes a payload that is taken [B]. The last one may be larger than what is left."""
        self._bytes -= payload_bytes * 1_000

    def take_instance(self, now_ms: int) -> bool:
        """True if another new instance may be taken in; it is counted then."""
        rate = self._instance_rate
        if not rate:
            return True
        self._instances = min(rate * INSTANCES_BURST_S * 1_000, self._instances + (now_ms - self._instances_ms) * rate)
        self._instances_ms = now_ms
        if self._instances < 1_000:
            return False
        self._instances -= 1_000
        return True


class SenderBounds:
    """The allowances of addresses and principals; the one that was asked for longest ago is forgotten first."""

    __slots__ = ("_allowances", "_limits", "_warned_ms")

    def __init__(self, limits: SenderLimits) -> None:
        self._limits = limits
        self._allowances: tuple[OrderedDict[str, Allowance], OrderedDict[str, Allowance]] = OrderedDict(), OrderedDict()
        self._warned_ms: int | None = None

    def of(self, context: RequestContext, now_ms: int) -> tuple[Allowance, ...]:
        """The allowances that a request draws on: of its address and, unless it is anonymous, of its principal."""
        limits = self._limits
        by_ip, by_principal = self._allowances
        found = _found(
            by_ip, network_of(context.client_address), limits.bytes_per_ip, limits.new_instances_per_ip, now_ms
        )
        if context.principal == ANONYMOUS:
            return (found,)
        name = str(context.principal)
        return found, _found(by_principal, name, limits.bytes_per_principal, limits.new_instances_per_principal, now_ms)

    def warn(self, what: str, context: RequestContext, now_ms: int) -> None:
        """Logs that a sender is refused, at most once a minute."""
        if self._warned_ms is None or now_ms - self._warned_ms >= _WARNING_INTERVAL_MS:
            self._warned_ms = now_ms
            _logger.warning(
                "%s (%s) sends more %s than telemetry.max.* lets one address or principal send: its pushes are "
                "answered THROTTLING_QUOTA_EXCEEDED. If it is a proxy or a NAT with that many clients, raise the rate",
                context.client_address,
                context.principal,
                what,
            )


def _found(known: OrderedDict[str, Allowance], name: str, byte_rate: int, instance_rate: int, now_ms: int) -> Allowance:
    allowance = known.get(name)
    if allowance is None:
        allowance = known[name] = Allowance(byte_rate, instance_rate, now_ms)
        if len(known) > MAX_SENDERS:
            known.popitem(last=False)
    else:
        known.move_to_end(name)
    return allowance

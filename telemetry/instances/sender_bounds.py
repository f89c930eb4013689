"""What all clients of one address, and all of one principal, may send together: payload bytes, and new instances.

The interval bounds one instance id, and a client may make up as many ids as it likes. These bounds are for that: far
above what a fleet behind one NAT sends, far below what fills a disk. Half of the bytes is kept for the clients that
keep to their interval, and most of the push log from what comes before a client has shown that it does. Times are
monotonic [ms].
"""

import logging
import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Protocol

from base.log_limiter import LogLimiter
from base.principal import ANONYMOUS
from telemetry.instances.gate import Gate
from telemetry.plugin.api import RequestContext
from wire.network import network_of

_logger = logging.getLogger(__name__)

BYTES_BURST_S: Final = 8
"""Payload bytes may come at once that the rate allows in this time [s]."""
INSTANCES_BURST_S: Final = 160
"""Likewise for new instances: after a restart all clients of a NAT are new at once [s]."""
FIRST_PUSHES_SHARE: Final = 4
"""First pushes of all senders together may take this part of the push log at once, and as much again in an hour. After
that they are taken of senders alone that have used little of their own."""
MAX_SENDERS: Final = 16_384
"""Addresses, and as many principals, that are remembered."""

TOKEN: Final = 1_000
"""What a token counts in a `Bucket`."""

_FILLED_EVERY_MS: Final = 1_000
_KEPT_FOR_INTERVALS: Final = 0.5
_LITTLE_USED: Final = 7 / 8
_HOUR_S: Final = 3_600
_WARNING_INTERVAL_MS: Final = 60_000
_WARNINGS: Final = 10


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
        log_bytes: size of the push log, of which first pushes may take a part [B] (`push.log.retention.bytes`).
    """

    bytes_per_ip: int = 32 << 20
    bytes_per_principal: int = 128 << 20
    new_instances_per_ip: int = 100
    new_instances_per_principal: int = 400
    log_bytes: int = 4 << 30


class Bucket:
    """A token bucket, full at first. Counts in thousandths, so that a millisecond adds a whole number.

    Args:
        rate: tokens a second; 0 is no limit.
        burst: tokens that it holds.
        now_ms: now.

    Attributes:
        left: tokens when it was last filled, less those taken since [thousandths]; who takes some lowers it.
        half: of a full bucket [thousandths].
        filled_ms: when it was last filled.
    """

    __slots__ = ("_full", "_rate", "filled_ms", "half", "left")

    def __init__(self, rate: int, burst: int, now_ms: int) -> None:
        self._rate = rate
        self._full: float = burst * TOKEN if rate else math.inf
        self.left: float = self._full
        self.half = burst * TOKEN // 2
        self.filled_ms = now_ms

    def has_token(self, now_ms: int, *, kept: float = 0.0) -> bool:
        """True if a token is left above the part of a full bucket that is `kept` for others."""
        self.left = min(self._full, self.left + (now_ms - self.filled_ms) * self._rate)
        self.filled_ms = now_ms
        return not self._rate or self.left - self._full * kept >= TOKEN


class Allowance:
    """What one address or principal may still send."""

    __slots__ = ("bytes", "instances")

    def __init__(self, byte_rate: int, instance_rate: int, now_ms: int) -> None:
        self.bytes = Bucket(byte_rate, byte_rate * BYTES_BURST_S, now_ms)
        self.instances = Bucket(instance_rate, instance_rate * INSTANCES_BURST_S, now_ms)


class Sender(Protocol):
    """A client instance, as far as it is looked at here."""

    allowances: tuple[Allowance, ...]
    gate: Gate
    pushes: int


class SenderBounds:
    """The allowances of addresses and principals; the one that was asked for longest ago is forgotten first."""

    __slots__ = ("_by_ip", "_by_principal", "_first_pushes", "_limiter", "_limits")

    def __init__(self, limits: SenderLimits) -> None:
        self._limits = limits
        self._by_ip: OrderedDict[str, Allowance] = OrderedDict()
        self._by_principal: OrderedDict[str, Allowance] = OrderedDict()
        share = limits.log_bytes // FIRST_PUSHES_SHARE
        self._first_pushes = Bucket(share // _HOUR_S, share, 0)
        self._limiter = LogLimiter(_WARNING_INTERVAL_MS, max_lines=_WARNINGS)

    def take_in(self, context: RequestContext, now_ms: int) -> tuple[Allowance, ...] | None:
        """The allowances of a new instance: of its address and, unless it is anonymous, of its principal.

        None if too many of that sender are new.
        """
        limits, network = self._limits, network_of(context.client_address)
        allowances = [_found(self._by_ip, network, limits.bytes_per_ip, limits.new_instances_per_ip, now_ms)]
        if context.principal != ANONYMOUS:
            rates = limits.bytes_per_principal, limits.new_instances_per_principal
            allowances.append(_found(self._by_principal, str(context.principal), *rates, now_ms))
        if not all(each.instances.has_token(now_ms) for each in allowances):
            self._warn("makes new client instances known", "telemetry.max.new.instance.rate.per.*", context, now_ms)
            return None
        for each in allowances:
            each.instances.left -= TOKEN
        return tuple(allowances)

    def has_room(self, sender: Sender, context: RequestContext, push_interval_ms: int, now_ms: int) -> bool:
        """True if a push of the instance may be taken, as far as all pushes of its senders go."""
        for allowance in sender.allowances:
            tokens = allowance.bytes
            if tokens.left > tokens.half and now_ms - tokens.filled_ms < _FILLED_EVERY_MS:
                continue  # the usual case
            if tokens.has_token(now_ms, kept=_KEPT_FOR_INTERVALS):
                continue
            keeps_interval = sender.pushes > 0 and sender.gate.has_waited(push_interval_ms, now_ms)
            if not keeps_interval or not tokens.has_token(now_ms):
                self._warn("pushes bytes", "telemetry.max.byte.rate.per.*", context, now_ms)
                return False
        if sender.pushes or self._first_pushes.has_token(now_ms):
            return True
        has_used_little = all(each.bytes.has_token(now_ms, kept=_LITTLE_USED) for each in sender.allowances)
        if not has_used_little:
            self._warn("pushes bytes of new client instances", "its part of push.log.retention.bytes", context, now_ms)
        return has_used_little

    def take_first(self, payload_bytes: int) -> None:
        """Notes the payload of a first push that is taken [B]."""
        self._first_pushes.left -= payload_bytes * TOKEN

    def _warn(self, what: str, limit: str, context: RequestContext, now_ms: int) -> None:
        """Logs that a sender is refused: each address at most once a minute, and ten a minute in all."""
        if not self._limiter.admit(network_of(context.client_address), now_ms):
            return
        _logger.warning(
            "%s (%s) %s faster than %s allows: it is answered THROTTLING_QUOTA_EXCEEDED. If it is a NAT with that many "
            "clients, raise the limit",
            context.client_address,
            context.principal,
            what,
            limit,
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

"""Limits per address and per principal on payload bytes and new instances.

The push interval limits one instance id, but a client can invent any number of ids. These limits are against that: far
above the rate of a fleet behind one NAT, far below a rate that fills a disk. Half of the bytes is reserved for clients
that keep to their interval, and first pushes, which do not show that yet, can take only a small part of the push log.
Times are monotonic [ms].
"""

import math
from dataclasses import dataclass
from typing import Final, Protocol

from cachetools import LRUCache

from fleetgauge.base.library_log import get_logger
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.base.network import network_of
from fleetgauge.base.principal import ANONYMOUS
from fleetgauge.telemetry.instances.gate import Gate
from fleetgauge.telemetry.plugin.api import RequestContext

log = get_logger(__name__)

BYTES_BURST_S: Final = 8
"""Burst of payload bytes: what the rate allows in this time [s]."""
INSTANCES_BURST_S: Final = 160
"""Burst of new instances [s]: after a restart all clients of a NAT are new at once."""
FIRST_PUSHES_SHARE: Final = 4
"""Divisor of the push log's size for first pushes: all senders together may use a quarter of it at once, and another
one per hour. Beyond that, first pushes are accepted only from senders that have used little of their own allowance."""
MAX_SENDERS: Final = 16_384
"""Maximum number of addresses, and of principals, with an allowance."""

TOKEN: Final = 1_000
"""Units of a token in a `Bucket`."""

_FILLED_EVERY_MS: Final = 1_000
_KEPT_FOR_INTERVALS: Final = 0.5
_LITTLE_USED: Final = 7 / 8
_HOUR_S: Final = 3_600
_WARNING_INTERVAL_MS: Final = 60_000
_WARNINGS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderLimits:
    """Rates; 0 for no limit. Bursts are the rates times `BYTES_BURST_S` and `INSTANCES_BURST_S`.

    Attributes:
        bytes_per_ip: payload bytes as received [B/s] (`telemetry.max.byte.rate.per.ip`).
        bytes_per_principal: the same per authenticated principal (`telemetry.max.byte.rate.per.principal`).
        new_instances_per_ip: client instances unknown to this node [1/s] (`telemetry.max.new.instance.rate.per.ip`).
        new_instances_per_principal: the same per authenticated principal
            (`telemetry.max.new.instance.rate.per.principal`).
        log_bytes: size of the push log, the base of the limit on first pushes [B] (`push.log.retention.bytes`).
    """

    bytes_per_ip: int = 32 << 20
    bytes_per_principal: int = 128 << 20
    new_instances_per_ip: int = 100
    new_instances_per_principal: int = 400
    log_bytes: int = 4 << 30


class Bucket:
    """A token bucket, initially full. Counts in thousandths, so that each millisecond adds a whole number.

    Not the quota engine's `TokenBucket`, which takes a configuration and two calls for each record and reserves
    nothing: here the usual push costs a comparison and a subtraction, and a fraction is kept for clients that keep to
    their interval.

    Args:
        rate: tokens per second; 0 for no limit.
        burst: capacity [tokens].
        now_ms: current time.

    Attributes:
        left: tokens at the last refill, less those taken since [thousandths]; callers subtract what they take.
        half: half of the capacity [thousandths].
        filled_ms: time of the last refill.
    """

    __slots__ = ("_full", "_rate", "filled_ms", "half", "left")

    def __init__(self, rate: int, burst: int, now_ms: int) -> None:
        self._rate = rate
        self._full: float = burst * TOKEN if rate else math.inf
        self.left: float = self._full
        self.half = burst * TOKEN // 2
        self.filled_ms = now_ms

    def has_token(self, now_ms: int, *, kept: float = 0.0) -> bool:
        """True if the bucket has a token above the reserved fraction `kept` of its capacity."""
        self.left = min(self._full, self.left + (now_ms - self.filled_ms) * self._rate)
        self.filled_ms = now_ms
        return not self._rate or self.left - self._full * kept >= TOKEN


class Allowance:
    """Remaining allowance of one address or principal."""

    __slots__ = ("bytes", "instances")

    def __init__(self, byte_rate: int, instance_rate: int, now_ms: int) -> None:
        self.bytes = Bucket(byte_rate, byte_rate * BYTES_BURST_S, now_ms)
        self.instances = Bucket(instance_rate, instance_rate * INSTANCES_BURST_S, now_ms)


class Sender(Protocol):
    """Attributes of a client instance that the limits need."""

    allowances: tuple[Allowance, ...]
    gate: Gate
    pushes: int


class SenderBounds:
    """Allowances of addresses and principals; the least recently used one is removed first."""

    def __init__(self, limits: SenderLimits) -> None:
        self._limits = limits
        self._by_ip: LRUCache[str, Allowance] = LRUCache(MAX_SENDERS)
        self._by_principal: LRUCache[str, Allowance] = LRUCache(MAX_SENDERS)
        share = limits.log_bytes // FIRST_PUSHES_SHARE
        self._first_pushes = Bucket(share // _HOUR_S, share, 0)
        self._limiter = LogLimiter(_WARNING_INTERVAL_MS, max_lines=_WARNINGS)

    def take_in(self, context: RequestContext, now_ms: int) -> tuple[Allowance, ...] | None:
        """Returns the allowances of a new instance: of its address and, unless it is anonymous, of its principal.

        None if the sender created too many instances recently.
        """
        limits, network = self._limits, network_of(context.client_address)
        allowances = [_found(self._by_ip, network, limits.bytes_per_ip, limits.new_instances_per_ip, now_ms)]
        if context.principal != ANONYMOUS:
            rates = limits.bytes_per_principal, limits.new_instances_per_principal
            allowances.append(_found(self._by_principal, str(context.principal), *rates, now_ms))
        if not all(each.instances.has_token(now_ms) for each in allowances):
            self._warn("new client instances", "telemetry.max.new.instance.rate.per.*", context, now_ms)
            return None
        for each in allowances:
            each.instances.left -= TOKEN
        return tuple(allowances)

    def has_room(self, sender: Sender, context: RequestContext, push_interval_ms: int, now_ms: int) -> bool:
        """True if a push of the instance is within the limits of its address and principal."""
        for allowance in sender.allowances:
            tokens = allowance.bytes
            if tokens.left > tokens.half and now_ms - tokens.filled_ms < _FILLED_EVERY_MS:
                continue  # the usual case
            if tokens.has_token(now_ms, kept=_KEPT_FOR_INTERVALS):
                continue
            keeps_interval = sender.pushes > 0 and sender.gate.has_waited(push_interval_ms, now_ms)
            if not keeps_interval or not tokens.has_token(now_ms):
                self._warn("bytes", "telemetry.max.byte.rate.per.*", context, now_ms)
                return False
        if sender.pushes or self._first_pushes.has_token(now_ms):
            return True
        has_used_little = all(each.bytes.has_token(now_ms, kept=_LITTLE_USED) for each in sender.allowances)
        if not has_used_little:
            self._warn("bytes of new client instances", "its part of push.log.retention.bytes", context, now_ms)
        return has_used_little

    def take_first(self, payload_bytes: int) -> None:
        """Records the payload size of an accepted first push [B]."""
        self._first_pushes.left -= payload_bytes * TOKEN

    def _warn(self, what: str, limit: str, context: RequestContext, now_ms: int) -> None:
        """Logs a refused sender: at most one line per address and minute, and ten per minute in total."""
        if not self._limiter.admit(network_of(context.client_address), now_ms):
            return
        log.warning(
            "telemetry.sender_over_limit",
            message="answered THROTTLING_QUOTA_EXCEEDED; if it is a NAT with that many clients, raise the limit",
            client_address=str(context.client_address),
            principal=str(context.principal),
            exceeded=what,
            limit=limit,
        )


def _found(known: LRUCache[str, Allowance], name: str, byte_rate: int, instance_rate: int, now_ms: int) -> Allowance:
    allowance = known.get(name)
    if allowance is None:
        allowance = known[name] = Allowance(byte_rate, instance_rate, now_ms)
    return allowance

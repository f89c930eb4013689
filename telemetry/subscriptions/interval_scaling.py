"""Telemetry quotas: who pushes more than the limits allow is given a longer interval, and refused if it keeps to none.

Nothing here mutes a connection. The rule, with a worked example, stands in `docs/quotas-at-work.md`. Times are
monotonic [ms].
"""

import uuid
from typing import Final, Protocol

from cachetools import FIFOCache

from quotas.client_quota import ClientQuotaManager, ClientSensors
from quotas.identities import Identities
from quotas.sensor import QuotaViolationError
from telemetry.plugin.api import RequestContext

INTERVALS_BETWEEN_CHANGES: Final = 5
"""A changed interval changes the subscription id: the client's next push is refused, and it asks again."""

MAX_FACTOR: Final = 65_536
"""100 ms, the shortest interval, times this is beyond the longest; further doublings would change nothing."""

RETURN_AT: Final = 0.8
"""An interval is halved when what would then come takes at most this share of every limit. At the limit itself clients
would go to and fro."""

MIN_KEPT_MS: Final = 60_000
"""For so long, and for five intervals, a quota's last client may be away and finds its interval again."""

MAX_GONE: Final = 16_384
"""Instances that are gone whose latest push is remembered."""

_MICRO: Final = 1_000_000
_PUSHES, _BYTES = 0, 1


class Pace:
    """What an instance has to do with telemetry quotas; kept with it (`ClientInstance.pace`).

    Attributes:
        base_interval_ms: the interval that it is configured for.
        factor: what that is multiplied by, a power of two.
        changed_ms: when `factor` was last changed; None before the first time.
        shares: what it adds to those with whom it shares a quota, of pushes and of bytes.
        previous_push_ms: its latest push before it was forgotten, as at a reconnect; None if none is known.
    """

    __slots__ = ("base_interval_ms", "changed_ms", "factor", "previous_push_ms", "shares")

    def __init__(self, base_interval_ms: int, factor: int) -> None:
        self.base_interval_ms = base_interval_ms
        self.factor = factor
        self.changed_ms: int | None = None
        self.shares: list[tuple[_Sharers, int] | None] = [None, None]
        self.previous_push_ms: int | None = None

    def had_waited(self, push_interval_ms: int, now_ms: int) -> bool:
        """True if the client has kept to its interval on a connection that is gone."""
        return self.previous_push_ms is not None and now_ms - self.previous_push_ms >= push_interval_ms


class Paced(Protocol):
    """A client instance, as far as it is looked at here."""

    instance_id: uuid.UUID
    sender: bytes
    last_push_ms: int | None
    pace: Pace | None


class _Sharers:
    """Those who share a quota.

    Attributes:
        clients: how many instances.
        demand: what they would send at their configured intervals, in millionths of pushes or bytes a second; when the
            last of them has gone, what it would, so that it finds its factor again.
        kept_until_ms: when they are forgotten if there is none of them.
    """

    __slots__ = ("clients", "demand", "kept_until_ms")

    def __init__(self) -> None:
        self.clients = 0
        self.demand = 0
        self.kept_until_ms = 0


class TelemetryPace:
    """The telemetry quotas of a node. Not for several threads.

    Args:
        pushes: the manager of `telemetry_push_rate`.
        payloads: the manager of `telemetry_byte_rate`.
        identities: who is behind a request.

    Attributes:
        enabled: False while no telemetry quota is set: then nothing is recorded, and no interval lengthened.
        slowed: instances with a longer interval than the configured one.
        changes: intervals that were changed.
    """

    def __init__(self, pushes: ClientQuotaManager, payloads: ClientQuotaManager, identities: Identities) -> None:
        self._managers = (pushes, payloads)
        self._identities = identities
        self._gone: FIFOCache[bytes, int] = FIFOCache(MAX_GONE)
        self._sharers: tuple[dict[str, _Sharers], dict[str, _Sharers]] = ({}, {})
        self.slowed = 0
        self.changes = 0
        self.quotas_changed()

    def quotas_changed(self) -> None:
        """Looks again whether any quota is set."""
        self.enabled = any(manager.quotas_enabled for manager in self._managers)

    def begin(self, instance_id: uuid.UUID, context: RequestContext, base_interval_ms: int, now_ms: int) -> Pace | None:
        """The pace of a new instance: the factor that those with whom it shares need now. None without any quota."""
        if not self.enabled:
            return None
        pace = Pace(base_interval_ms, _factor_for(self._load(context, now_ms)))
        pace.previous_push_ms = self._gone.pop(instance_id.bytes + context.sender, None)
        self.slowed += pace.factor > 1
        return pace

    def changes_interval(self, instance: Paced, context: RequestContext, interval_ms: int, now_ms: int) -> bool:
        """Changes the factor of an instance, if it is time; True if it did.

        Up in one step to what is needed, down by one half at a time; in either case once in five of the intervals
        that the client has, `interval_ms` [ms].
        """
        pace = instance.pace
        if pace is None:
            pace = instance.pace = Pace(interval_ms, 1)
        if pace.changed_ms is not None and now_ms - pace.changed_ms < INTERVALS_BETWEEN_CHANGES * interval_ms:
            return False
        factor = self._target(pace.factor, context, now_ms)
        if factor == pace.factor:
            return False
        self.slowed += (factor > 1) - (pace.factor > 1)
        self.changes += 1
        pace.factor = factor
        pace.changed_ms = now_ms
        for share in pace.shares:
            if share is not None:
                _keep(share[0], pace, now_ms)
        return True

    def has_room(self, context: RequestContext, now_ms: int) -> bool:
        """True if what was pushed of late, by all who share, is within every limit."""
        try:
            for _, sensors in self._sensors(context, now_ms):
                sensors.quota_sensor.check_quotas(now_ms)
        except QuotaViolationError:
            return False
        return True

    def record(self, instance: Paced, context: RequestContext, payload_bytes: int, now_ms: int) -> None:
        """Records an accepted push of `payload_bytes` [B] as received."""
        pace = instance.pace
        if pace is None:
            return
        for kind, sensors in self._sensors(context, now_ms):
            value = payload_bytes if kind == _BYTES else 1
            sensors.quota_sensor.record(value, now_ms, False)
            demand = value * 1_000 * _MICRO // pace.base_interval_ms
            _keep(self._share(pace, kind, sensors.quota_sensor.name, demand), pace, now_ms)

    def leave(self, instance: Paced) -> None:
        """Forgets an instance, but for when it last pushed: it may come again on another connection."""
        pace = instance.pace
        if pace is not None:
            last_push_ms = pace.previous_push_ms if instance.last_push_ms is None else instance.last_push_ms
            if last_push_ms is not None:
                self._gone[instance.instance_id.bytes + instance.sender] = last_push_ms
            self.slowed -= pace.factor > 1
            for kind in (_PUSHES, _BYTES):
                self._unshare(pace, kind)

    def expire(self, now_ms: int) -> None:
        """Forgets those who share a quota with nobody any more."""
        for known in self._sharers:
            for name in [name for name, each in known.items() if not each.clients and now_ms >= each.kept_until_ms]:
                del known[name]

    def _sensors(self, context: RequestContext, now_ms: int) -> list[tuple[int, ClientSensors]]:
        """Of each quota that is set anywhere, what those record into with whom the client shares it."""
        session, client_id = self._identities.of(context.principal, context.client_id, now_ms)
        return [
            (kind, manager.get_or_create_quota_sensors(session, client_id))
            for kind, manager in enumerate(self._managers)
            if manager.quotas_enabled
        ]

    def _share(self, pace: Pace, kind: int, name: str, demand: int) -> _Sharers:
        """Puts an instance's demand in the place of what it had before, perhaps with others."""
        known = self._sharers[kind]
        sharers = known.get(name)
        if sharers is None:
            sharers = known[name] = _Sharers()
        share = pace.shares[kind]
        if share is not None and share[0] is sharers:
            sharers.demand += demand - share[1]
        else:
            self._unshare(pace, kind)
            sharers.demand = demand + (sharers.demand if sharers.clients else 0)
            sharers.clients += 1
        pace.shares[kind] = (sharers, demand)
        return sharers

    @staticmethod
    def _unshare(pace: Pace, kind: int) -> None:
        share, pace.shares[kind] = pace.shares[kind], None
        if share is not None:
            sharers, demand = share
            sharers.clients -= 1
            if sharers.clients:
                sharers.demand -= demand

    def _load(self, context: RequestContext, now_ms: int) -> float:
        """Demand over limit, of the quota that is nearest to its limit or furthest beyond."""
        load = 0.0
        for kind, sensors in self._sensors(context, now_ms):
            sharers = self._sharers[kind].get(sensors.quota_sensor.name)
            quota = sensors.quota_sensor.metrics[0].config.quota
            if sharers is not None and quota is not None:
                load = max(load, sharers.demand / _MICRO / quota.bound)
        return load

    def _target(self, factor: int, context: RequestContext, now_ms: int) -> int:
        load = self._load(context, now_ms)
        needed = _factor_for(load)
        if needed > factor:
            return needed
        return factor // 2 if factor > 1 and load <= RETURN_AT * (factor // 2) else factor


def _keep(sharers: _Sharers, pace: Pace, now_ms: int) -> None:
    """Has them remembered for as long as a client of this pace may take to come back and find its factor again."""
    away_ms = max(MIN_KEPT_MS, INTERVALS_BETWEEN_CHANGES * pace.base_interval_ms * pace.factor)
    sharers.kept_until_ms = max(sharers.kept_until_ms, now_ms + away_ms)


def _factor_for(load: float) -> int:
    """The smallest power of two by which intervals have to grow for a demand of `load` limits to be within one.

    >>> [_factor_for(load) for load in (0.5, 1.0, 1.1, 5.0)]
    [1, 1, 2, 8]
    """
    factor = 1
    while load > factor and factor < MAX_FACTOR:
        factor *= 2
    return factor

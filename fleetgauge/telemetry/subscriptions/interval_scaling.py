"""Telemetry quotas: clients over a limit get a longer push interval, and are refused if they ignore it.

No connection is muted. See docs/limit/quotas.md for the rule and a worked example. Times are
monotonic [ms].
"""

import uuid
from collections.abc import Mapping
from typing import Final, Protocol

from cachetools import FIFOCache

from fleetgauge.quotas.client_quota import ClientQuotaManager, ClientSensors
from fleetgauge.quotas.identities import Identities
from fleetgauge.quotas.metrics.sensor import QuotaViolationError
from fleetgauge.telemetry.plugin.api import RequestContext

INTERVALS_BETWEEN_CHANGES: Final = 5
"""A changed interval changes the subscription id: the client's next push is refused, and it sends another Get."""

MAX_FACTOR: Final = 65_536
"""The shortest interval of 100 ms times this exceeds the longest one, so larger factors have no effect."""

RETURN_AT: Final = 0.8
"""An interval is halved if the resulting demand takes at most this share of every limit. At 1 the interval would
oscillate."""

MIN_KEPT_MS: Final = 60_000
"""Minimum time for which a quota's factor is kept after its last client disconnected; at least five intervals."""

MAX_GONE: Final = 16_384
"""Disconnected instances whose latest push is remembered."""

_MICRO: Final = 1_000_000
_PUSHES, _BYTES = 0, 1


class IntervalScaling:
    """Interval scaling of one instance (`ClientInstance.pace`).

    Attributes:
        base_interval_ms: the configured interval.
        factor: multiplier of the interval, a power of two.
        changed_ms: time of the last change of `factor`; None before the first.
        shares: its contribution to the demand on its quotas of pushes and of bytes.
        previous_push_ms: its latest push before it was removed, for example at a reconnect; None if unknown.
    """

    __slots__ = ("base_interval_ms", "changed_ms", "factor", "previous_push_ms", "shares")

    def __init__(self, base_interval_ms: int, factor: int) -> None:
        self.base_interval_ms = base_interval_ms
        self.factor = factor
        self.changed_ms: int | None = None
        self.shares: list[tuple[_Sharers, int] | None] = [None, None]
        self.previous_push_ms: int | None = None

    def had_waited(self, push_interval_ms: int, now_ms: int) -> bool:
        """True if the client kept to its interval on an earlier connection."""
        return self.previous_push_ms is not None and now_ms - self.previous_push_ms >= push_interval_ms


class ScaledClient(Protocol):
    """The attributes of a client instance that are used here."""

    instance_id: uuid.UUID
    sender: bytes
    last_push_ms: int | None
    pace: IntervalScaling | None


class _Sharers:
    """The clients that share a quota.

    Attributes:
        clients: number of instances.
        demand: what they would send at their configured intervals, in millionths of pushes or bytes per second; after
            the last one disconnected, its demand, so that it gets its factor back.
        kept_until_ms: time of their removal if there are no clients.
        slowed: number of instances among them with a longer interval than configured.
    """

    __slots__ = ("clients", "demand", "kept_until_ms", "slowed")

    def __init__(self) -> None:
        self.clients = 0
        self.slowed = 0
        self.demand = 0
        self.kept_until_ms = 0


class TelemetryIntervalScaling:
    """The telemetry quotas of a node. Not for several threads.

    Args:
        pushes: the manager of `telemetry_push_rate`.
        payloads: the manager of `telemetry_byte_rate`.
        identities: quota identities of requests.

    Attributes:
        enabled: False without a telemetry quota: nothing is recorded, and no interval lengthened.
        slowed: number of instances with a longer interval than configured.
        changes: number of changed intervals.
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
        """Updates `enabled` after a change of quotas."""
        self.enabled = any(manager.quotas_enabled for manager in self._managers)

    def begin(
        self, instance_id: uuid.UUID, context: RequestContext, base_interval_ms: int, now_ms: int
    ) -> IntervalScaling | None:
        """Returns the interval scaling of a new instance, with the factor required by its quota; None without any
        quota.
        """
        if not self.enabled:
            return None
        pace = IntervalScaling(base_interval_ms, _factor_for(self._load(context, now_ms)))
        pace.previous_push_ms = self._gone.pop(instance_id.bytes + context.sender, None)
        self.slowed += pace.factor > 1
        return pace

    def changes_interval(self, instance: ScaledClient, context: RequestContext, interval_ms: int, now_ms: int) -> bool:
        """Changes the factor of an instance if needed and due; True if it did.

        Increases in one step to the needed factor, decreases by halves; either at most once in five of the client's
        current intervals, `interval_ms` [ms].
        """
        pace = instance.pace
        if pace is None:
            pace = instance.pace = IntervalScaling(interval_ms, 1)
        if pace.changed_ms is not None and now_ms - pace.changed_ms < INTERVALS_BETWEEN_CHANGES * interval_ms:
            return False
        factor = self._target(pace.factor, context, now_ms)
        if factor == pace.factor:
            return False
        slowed = (factor > 1) - (pace.factor > 1)
        self.slowed += slowed
        self.changes += 1
        pace.factor = factor
        pace.changed_ms = now_ms
        for share in pace.shares:
            if share is not None:
                share[0].slowed += slowed
                _keep(share[0], pace, now_ms)
        return True

    def has_room(self, context: RequestContext, now_ms: int) -> bool:
        """True if the recent pushes of all clients that share the quotas are within every limit."""
        try:
            for _, sensors in self._sensors(context, now_ms):
                sensors.quota_sensor.check_quotas(now_ms)
        except QuotaViolationError:
            return False
        return True

    def record(self, instance: ScaledClient, context: RequestContext, payload_bytes: int, now_ms: int) -> None:
        """Records an accepted push of `payload_bytes` [B] as received."""
        pace = instance.pace
        if pace is None:
            return
        for kind, sensors in self._sensors(context, now_ms):
            value = payload_bytes if kind == _BYTES else 1
            sensors.quota_sensor.record(value, now_ms, False)
            demand = value * 1_000 * _MICRO // pace.base_interval_ms
            _keep(self._share(pace, kind, sensors.quota_sensor.name, demand), pace, now_ms)

    def leave(self, instance: ScaledClient) -> None:
        """Removes an instance, except the time of its last push: it may reconnect."""
        pace = instance.pace
        if pace is not None:
            last_push_ms = pace.previous_push_ms if instance.last_push_ms is None else instance.last_push_ms
            if last_push_ms is not None:
                self._gone[instance.instance_id.bytes + instance.sender] = last_push_ms
            self.slowed -= pace.factor > 1
            for kind in (_PUSHES, _BYTES):
                self._unshare(pace, kind)

    def slowed_by(self, quota_type: str, tags: Mapping[str, str]) -> int:
        """Number of instances with a longer interval than configured that share the quota with these metric tags."""
        for manager, known in zip(self._managers, self._sharers, strict=True):
            sharers = known.get(manager.quota_sensor_name(tags)) if str(manager.quota_type) == quota_type else None
            if sharers is not None:
                return sharers.slowed
        return 0

    def expire(self, now_ms: int) -> None:
        """Removes quotas without clients after their time."""
        for known in self._sharers:
            for name in [name for name, each in known.items() if not each.clients and now_ms >= each.kept_until_ms]:
                del known[name]

    def _sensors(self, context: RequestContext, now_ms: int) -> list[tuple[int, ClientSensors]]:
        """Returns the client's sensors for each type of quota that is set."""
        session, client_id = self._identities.of(context.principal, context.client_id, now_ms)
        return [
            (kind, manager.get_or_create_quota_sensors(session, client_id))
            for kind, manager in enumerate(self._managers)
            if manager.quotas_enabled
        ]

    def _share(self, pace: IntervalScaling, kind: int, name: str, demand: int) -> _Sharers:
        """Replaces the demand of an instance, which may have moved to another quota."""
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
            sharers.slowed += pace.factor > 1
        pace.shares[kind] = (sharers, demand)
        return sharers

    @staticmethod
    def _unshare(pace: IntervalScaling, kind: int) -> None:
        share, pace.shares[kind] = pace.shares[kind], None
        if share is not None:
            sharers, demand = share
            sharers.clients -= 1
            sharers.slowed -= pace.factor > 1
            if sharers.clients:
                sharers.demand -= demand

    def _load(self, context: RequestContext, now_ms: int) -> float:
        """Returns the largest ratio of demand to limit."""
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


def _keep(sharers: _Sharers, pace: IntervalScaling, now_ms: int) -> None:
    """Extends their time so that a client with this interval can reconnect and get its factor back."""
    away_ms = max(MIN_KEPT_MS, INTERVALS_BETWEEN_CHANGES * pace.base_interval_ms * pace.factor)
    sharers.kept_until_ms = max(sharers.kept_until_ms, now_ms + away_ms)


def _factor_for(load: float) -> int:
    """Returns the smallest power of two by which intervals have to grow for a demand of `load` times the limit.

    >>> [_factor_for(load) for load in (0.5, 1.0, 1.1, 5.0)]
    [1, 1, 2, 8]
    """
    factor = 1
    while load > factor and factor < MAX_FACTOR:
        factor *= 2
    return factor

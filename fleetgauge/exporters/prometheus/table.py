"""All series of the page: their values, and when they expire. In memory, no I/O.

One thread applies pushes; others read the page and remove expired clients. A value is shown once it is saved, because
a value that falls after a crash would look like a reset.
"""

import threading
from array import array
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from fleetgauge.base.presence import ABSENT_INTERVALS, DEFAULT_PUSH_INTERVAL_MS, IntervalOf
from fleetgauge.exporters.labels import LabelSettings
from fleetgauge.exporters.prometheus.client_codec import encode_client
from fleetgauge.exporters.prometheus.client_labels import ClientLabels, label_fields
from fleetgauge.exporters.prometheus.families import Families
from fleetgauge.exporters.prometheus.names import MetricId, label_text
from fleetgauge.exporters.prometheus.points import Measurement, Mode, PushPoints
from fleetgauge.exporters.prometheus.series import FOLDED, NEVER, About, Binding, Client, ClientKey, Family, Series
from fleetgauge.exporters.prometheus.settings import SeriesSettings
from fleetgauge.exporters.prometheus.shapes import AlikePush, Shape
from fleetgauge.exporters.state_file import SavedClient
from fleetgauge.telemetry.push_record import PushRecord

_LONGEST_INTERVAL_MS: Final = 3_600_000
"""KIP-714's greatest `interval.ms`; a record of a topic may have any value."""
_FOLDED_LIFETIME_MS: Final = ABSENT_INTERVALS * DEFAULT_PUSH_INTERVAL_MS
_SWEEP_EVERY_MS: Final = 1_000
_GAP_SLACK_NANO: Final = 100_000_000
"""A delta starts where the previous one ended, to the millisecond in all known clients; a clock may step a little."""
_INFO_COST: Final = 1
_WRITTEN_AT_ONCE: Final = 1_000
"""Number of lines that are written before the next pushes are applied."""


LineWriter = Callable[[Client], None]
"""Writes the lines of a client's series."""


class Moment(NamedTuple):
    """The current time by both clocks."""

    monotonic_ms: int
    wall_us: int


@dataclass(slots=True)
class Counts:
    """Counters of pushes and points since the start, by the names that they have on the page.

    Attributes:
        pushes, points: those that were applied.
        left_out_points: points that are in no series, by cause.
        folded_points: points that were added to a shared series, by cause.
        repeated_pushes: pushes that were delivered again after they had been applied.
        resets: counts that were reset.
        gaps: pushes whose deltas start after the end of the previous ones: a push in between is missing.
        expired_clients: removed clients by cause, `terminated` or `silent`.
    """

    pushes: int = 0
    points: int = 0
    left_out_points: Counter[str] = field(default_factory=Counter)
    folded_points: Counter[str] = field(default_factory=Counter)
    repeated_pushes: int = 0
    resets: int = 0
    gaps: int = 0
    expired_clients: Counter[str] = field(default_factory=Counter)


class Changes(NamedTuple):
    """Changes to save: `saved` has the encoded form of each of `clients`."""

    clients: list[Client]
    saved: list[SavedClient]
    removed: list[ClientKey]


class SeriesTable:
    """The series of all clients.

    Args:
        settings: the bounds.
        labels: the labels of series.
        own_names: metric names that are reserved for the exporter.

    Attributes:
        counts: counters of pushes and points.
        labels: makes the labels of clients.
    """

    def __init__(self, settings: SeriesSettings, labels: LabelSettings, own_names: Iterable[str] = ()) -> None:
        self.settings = settings
        self.labels = ClientLabels(labels)
        self.counts = Counts()
        self._lock = threading.RLock()
        self._families = Families(settings, own_names)
        self._identities: dict[str, ClientKey] = {}
        self._dirty: dict[ClientKey, Client] = {}
        self._removed: dict[ClientKey, None] = {}
        self._unwritten: OrderedDict[ClientKey, Client] = OrderedDict()
        """Clients whose lines on the page are out of date, in the order of their changes."""
        self._sweep_due_ms = 0
        self._interval_of: IntervalOf | None = None
        self._folded = Client(FOLDED, About({}, {}))
        self._clients: dict[ClientKey, Client] = {FOLDED: self._folded}

    @property
    def cost(self) -> int:
        """Number of samples on the page, without the exporter's own."""
        return self._families.cost

    @property
    def client_count(self) -> int:
        """Number of clients on the page."""
        return len(self._clients) - 1

    def latest(self, record: PushRecord) -> tuple[int, int]:
        """Time of receipt of the latest push of a record's client [us], and its time [ns]; zeros for a new client."""
        client = self._clients.get(_key(record))
        return (client.received_at, client.time_unix_nano) if client else (0, 0)

    def apply(self, record: PushRecord, points: PushPoints, now: Moment) -> None:
        """Applies a push that was not applied before; a heartbeat has no points."""
        with self._lock:
            self.counts.pushes += 1
            self.counts.left_out_points.update(points.left_out)
            self.counts.folded_points.update(points.folded)
            client = self._client(record, points.resource)
            if client is None:
                for metric, by_labels in points.measurements.items():
                    for _, measurement, _ in _in_order(by_labels, 0):
                        self._fold(metric, measurement, points.descriptions.get(metric, ""), "series.max", now)
                return
            if record.metrics:
                client.binding = None
            before = client.time_unix_nano
            is_late = record.received_at < client.received_at and points.time_unix_nano < before
            if not is_late:
                self._note(client, record, points, now)
            self._take(client, points, now, before, deltas_alone=is_late)
            if not is_late:
                _hide(client, points)
            self._changed(client, now)

    def alike(self, record: PushRecord) -> AlikePush | None:
        """The numbers of a push that has the shape of its client's latest push; None if it has another."""
        client = self._clients.get(_key(record))
        binding = client.binding if client else None
        return binding.shape.read(record.metrics) if binding else None

    def apply_alike(self, record: PushRecord, push: AlikePush, now: Moment) -> bool:
        """Applies the result of `alike` as `apply` would; False if the push was overtaken or has no series."""
        with self._lock:
            client = self._clients.get(_key(record))
            if client is None or client.binding is None:
                return False
            before, binding = client.time_unix_nano, client.binding
            if record.received_at < client.received_at and push.time_unix_nano < before:
                return False
            if client.clashes or client.label_fields != label_fields(record):
                self._client(record, binding.shape.resource)
            client.unlike = 0
            self._note(client, record, push, now)
            self._count_alike(push, binding.shape, _apply_numbers(client, binding, push))
            self.counts.resets += sum(
                series.apply_cumulative((float(value),), start, before)
                for series, value, start in zip(binding.cumulative, push.cumulative, push.starts, strict=True)
            )
            self._changed(client, now)
            return True

    def count_unlike(self, record: PushRecord) -> int:
        """Counts a push that was parsed in full; returns the number of such pushes of its client in a row."""
        client = self._clients.get(_key(record))
        if client is None:
            return 0
        client.unlike += 1
        return client.unlike

    def bind(self, record: PushRecord, shape: Shape) -> None:
        """Makes the next pushes of a record's client be read by the shape of this one, unless it was overtaken: series
        of it may be hidden still.
        """
        with self._lock:
            client = self._clients.get(_key(record))
            if client is not None and client.received_at == record.received_at:
                client.bind(shape)

    def change_all(self) -> None:
        """Marks every client to be saved next, in full."""
        with self._lock:
            for client in self._clients.values():
                client.layout_changed = True
            self._dirty.update(self._clients)

    def take_changes(self) -> Changes:
        """Takes the changes since the last call; the caller saves them, and then calls `publish` or `give_back`."""
        with self._lock:
            clients = list(self._dirty.values())
            saved = [encode_client(client, self._families.description) for client in clients]
            for client in clients:
                client.layout_changed = False
            changes = Changes(clients, saved, list(self._removed))
            self._dirty.clear()
            self._removed.clear()
            return changes

    def publish(self, changes: Changes) -> None:
        """Shows changes that were saved."""
        with self._lock:
            for client in changes.clients:
                client.shown = client.numbers[:]
                if self._clients.get(client.key) is client:
                    self._unwritten[client.key] = client

    def give_back(self, changes: Changes) -> None:
        """Keeps changes that could not be saved for the next `take_changes`."""
        with self._lock:
            self._removed.update(dict.fromkeys(key for key in changes.removed if key not in self._clients))
            for client in changes.clients:
                if self._clients.get(client.key) is client:
                    client.layout_changed = True
                    self._dirty[client.key] = client

    def restore(self, saved: Client, descriptions: dict[MetricId, str], now: Moment) -> None:
        """Adds a saved client to the page, as far as the bounds allow, with its lifetime from now on."""
        with self._lock:
            ordered, numbers = saved.in_order(), saved.numbers
            saved.series, saved.numbers = {}, array("d")
            client = self._folded if saved.key == FOLDED else saved
            if client is saved:
                if not self._admit(client):
                    self._removed[saved.key] = None
                    return
                client.expires_ms = now.monotonic_ms + self._lifetime_ms(client, now)
            left_out = 0
            for metric, series in ordered:
                kept = numbers[series.at : series.at + series.size]
                if self._restore_series(client, metric, series, descriptions.get(metric, ""), now):
                    client.numbers[series.at : series.at + series.size] = kept
                else:
                    left_out += 1
            client.shown = client.numbers[:]
            self._unwritten[client.key] = client
            client.layout_changed = left_out > 0
            if not left_out:
                self._dirty.pop(client.key, None)

    def sweep(self, now_ms: int) -> None:
        """Removes clients that have terminated or been silent for too long. From any thread."""
        with self._lock:
            if now_ms < self._sweep_due_ms:
                return
            self._sweep_due_ms = now_ms + _SWEEP_EVERY_MS
            for client in [each for each in self._clients.values() if each.expires_ms <= now_ms]:
                self.counts.expired_clients["terminated" if client.terminated else "silent"] += 1
                self._remove(client)
            self._expire_series(self._folded, now_ms)

    def allow_intervals(self, interval_ms: IntervalOf, now: Moment, *, anew: bool) -> None:
        """Keeps clients at least as long as the subscriptions in force let them wait; see `SeenClients`."""
        with self._lock:
            self._interval_of = interval_ms
            clients = [each for each in self._clients.values() if anew or each.allowed_ms is None]
        for client in clients:
            if client is not self._folded:
                self._allow(client, interval_ms(client.about.record), now)

    def _allow(self, client: Client, interval_ms: int, now: Moment) -> None:
        with self._lock:
            client.allowed_ms = interval_ms
            before_ms, expires_ms = client.expires_ms, now.monotonic_ms + _waits_ms(client, now)
            if client.terminated or expires_ms <= before_ms or self._clients.get(client.key) is not client:
                return
            client.expires_ms = expires_ms
            self._dirty[client.key] = client
            for _, series in client.every_series():
                if series.expires_ms == before_ms:
                    series.expires_ms = expires_ms

    def families(self) -> list[Family]:
        """All metrics on the page."""
        with self._lock:
            return self._families.by_name()

    def write_lines(self, write: LineWriter) -> Iterator[None]:
        """Writes the lines of changed clients again, some at a time: pushes are applied in between."""
        left = len(self._unwritten)  # clients that change meanwhile are left to the next call
        while left > 0 and self._unwritten:
            with self._lock:
                room = _WRITTEN_AT_ONCE
                while self._unwritten and room > 0:
                    _, client = self._unwritten.popitem(last=False)
                    write(client)
                    room -= 1 + client.cost
                    left -= 1
            yield

    def lines(self, family: Family, *, created: bool) -> list[str]:
        """The lines of a metric's series, as last written; with `created` also those of their start times."""
        with self._lock:
            if created or not self.settings.created_timestamps:
                return [lines for lines in family.members.values() if lines]
            return [
                _without_last(lines) if series.created_unix_nano else lines
                for series, lines in family.members.items()
                if lines
            ]

    def infos(self) -> list[str]:
        """The labels of the info series of each client."""
        with self._lock:
            return [client.info for client in self._clients.values() if client.info]

    def _client(self, record: PushRecord, resource: dict[str, str]) -> Client | None:
        """The client of a push; None if there is no room for a new one."""
        key, fields = _key(record), label_fields(record)
        client = self._clients.get(key)
        if client is None:
            client = Client(key, About(self.labels.of_record(record), resource))
            client.label_fields = fields
            if self._interval_of is not None:
                client.allowed_ms = self._interval_of(client.about.record)
            return client if self._admit(client) else None
        about = client.about
        labels = about.record if client.label_fields == fields else self.labels.of_record(record)
        client.label_fields = fields
        if labels != about.record or any(about.resource.get(name) != value for name, value in resource.items()):
            # Attributes that a push leaves out are removed, so that they do not accumulate.
            client.about = About(labels, resource or about.resource)
            self._identify(client)
        elif client.clashes:
            self._identify(client)  # the other client may be gone
        return client

    def _admit(self, client: Client) -> bool:
        if not self._families.has_room(_INFO_COST):
            return False
        self._clients[client.key] = client
        self._removed.pop(client.key, None)
        self._dirty[client.key] = client
        client.cost = _INFO_COST
        self._families.cost += _INFO_COST
        self._identify(client)
        return True

    def _identify(self, client: Client) -> None:
        """Makes a client's labels, which are unique."""
        client.layout_changed = True
        self._forget_identity(client)
        client.clashes = 0
        client.identity = self.labels.identity(client.about)
        while client.identity in self._identities:
            client.clashes += 1
            client.identity = self.labels.identity(client.about, client.clashes)
        client.info = "" if client.clashes else self.labels.info(client.about)
        self._identities[client.identity] = client.key
        client.written = array("d")
        # To the end: the previous owner of this identity writes its lines first, so that no two series are ever equal.
        self._unwritten[client.key] = client
        self._unwritten.move_to_end(client.key)

    def _forget_identity(self, client: Client) -> None:
        if self._identities.get(client.identity) == client.key:
            del self._identities[client.identity]

    def _count_alike(self, push: AlikePush, shape: Shape, without_value: int) -> None:
        counts = self.counts
        counts.pushes += 1
        counts.points += len(push.deltas) + len(push.gauges) + len(push.cumulative) - without_value
        if without_value:
            counts.left_out_points["no_value"] += without_value
        if shape.left_out:
            counts.left_out_points.update(shape.left_out)
        if shape.folded:
            counts.folded_points.update(shape.folded)

    def _note(self, client: Client, record: PushRecord, points: PushPoints | AlikePush, now: Moment) -> None:
        """Notes the time of a client's push, and when it expires."""
        start = points.delta_start_unix_nano
        if start is not None and 0 < client.time_unix_nano < start - _GAP_SLACK_NANO:
            self.counts.gaps += 1
        client.received_at = record.received_at
        client.time_unix_nano = points.time_unix_nano or client.time_unix_nano
        client.before_ms = client.interval_ms
        client.interval_ms = min(record.push_interval_ms or DEFAULT_PUSH_INTERVAL_MS, _LONGEST_INTERVAL_MS)
        client.terminated = record.terminating
        client.expires_ms = now.monotonic_ms + self._lifetime_ms(client, now)

    def _changed(self, client: Client, now: Moment) -> None:
        """Marks a client for saving; removes series that it has not pushed for too long."""
        self._dirty[client.key] = client
        if now.monotonic_ms >= client.check_ms:
            self._expire_series(client, now.monotonic_ms)

    def _lifetime_ms(self, client: Client, now: Moment) -> int:
        """Lifetime of a client from now on [ms], at least the linger time."""
        waits_ms = 0 if client.terminated else _waits_ms(client, now)
        return max(self.settings.linger_ms, waits_ms)

    def _take(self, client: Client, points: PushPoints, now: Moment, before: int, *, deltas_alone: bool) -> None:
        """Applies a push's measurements; with `deltas_alone`, for a push that was overtaken, only its deltas, except
        those of series that have been cumulative: the count may include them.
        """
        for metric, by_labels in points.measurements.items():
            description = points.descriptions.get(metric, "")
            for labels, measurement, before_unix_nano in _in_order(by_labels, before):
                self.counts.points += 1
                series = client.series.get(metric, {}).get(labels)
                if deltas_alone and (measurement.mode != Mode.DELTA or (series and series.has_been_cumulative)):
                    self.counts.left_out_points["late"] += 1
                    continue
                if series is not None and not series.fits(measurement):
                    # Its bounds have changed.
                    self._families.leave(client, [(metric, series)])
                    self.counts.resets += 1
                    series = None
                cause = None
                if series is None:
                    series = Series(client, labels, len(measurement.values), measurement.bounds)
                    if self.settings.created_timestamps and metric.kind != "gauge":
                        series.created_unix_nano = measurement.start_unix_nano
                    cause = self._families.place(client, metric, series, description)
                if cause is not None:
                    self._fold(metric, measurement, description, cause, now)
                    continue
                self.counts.resets += series.apply(measurement, before_unix_nano=before_unix_nano)
                if measurement.mode == Mode.AS_IS:
                    series.expires_ms = client.expires_ms
                    client.check_ms = min(client.check_ms, client.expires_ms)

    def _fold(self, metric: MetricId, measurement: Measurement, description: str, cause: str, now: Moment) -> None:
        """Adds a counter's delta to the series shared by all that had no room; leaves out anything else."""
        is_delta = metric.kind == "counter" and measurement.mode == Mode.DELTA
        family = self._family_to_fold_into(metric, description) if is_delta else None
        if family is None:
            self.counts.left_out_points[cause] += 1
            return
        labels = label_text([("folded", cause)])
        series = self._folded.series.get(metric, {}).get(labels)
        if series is None:
            series = Series(self._folded, labels, len(measurement.values), measurement.bounds)
            self._families.join(self._folded, family, series)
        self.counts.folded_points[cause] += 1
        series.apply(measurement, before_unix_nano=0)
        series.expires_ms = now.monotonic_ms + _FOLDED_LIFETIME_MS
        self._dirty[FOLDED] = self._folded

    def _family_to_fold_into(self, metric: MetricId, description: str) -> Family | None:
        """The metric to fold into; it is created if need be, up to as many metrics as one client may have."""
        family = self._families.get(metric)
        if family is None and len(self._folded.series) < self.settings.max_per_client:
            return self._families.new(metric, description)
        return family

    def _restore_series(self, client: Client, metric: MetricId, series: Series, description: str, now: Moment) -> bool:
        series.client = client
        if not self.settings.created_timestamps:
            series.created_unix_nano = 0
        if self._families.place(client, metric, series, description) is not None:
            return False
        if series.expires_ms != NEVER:
            series.expires_ms = min(client.expires_ms, now.monotonic_ms + _FOLDED_LIFETIME_MS)
        return True

    def _expire_series(self, client: Client, now_ms: int) -> None:
        """Removes series that a client has not pushed for too long."""
        expired = [(metric, series) for metric, series in client.every_series() if series.expires_ms <= now_ms]
        if expired:
            self._families.leave(client, expired)
            self._dirty[client.key] = client
        client.check_ms = min((series.expires_ms for _, series in client.every_series()), default=NEVER)

    def _remove(self, client: Client) -> None:
        self._families.leave(client, list(client.every_series()))
        self._families.cost -= _INFO_COST
        del self._clients[client.key]
        self._forget_identity(client)
        self._dirty.pop(client.key, None)
        self._unwritten.pop(client.key, None)
        self._removed[client.key] = None


def _in_order(by_labels: dict[str, Measurement], before_unix_nano: int) -> Iterator[tuple[str, Measurement, int]]:
    """Labels, each of their measurements by time, and the time before it: of the previous push, or measurement."""
    for labels, last in by_labels.items():
        before = before_unix_nano
        for measurement in (*last.earlier, last) if last.earlier else (last,):
            yield labels, measurement, before
            before = measurement.time_unix_nano


def _hide(client: Client, points: PushPoints) -> None:
    """Removes from the page what a push has without a value, unless it has one of that time or later."""
    for metric, by_labels in points.without_value.items():
        series, measured = client.series.get(metric, {}), points.measurements[metric]
        for labels, time in by_labels.items():
            if labels in series and (labels not in measured or measured[labels].time_unix_nano < time):
                series[labels].hide()


def _apply_numbers(client: Client, binding: Binding, push: AlikePush) -> int:
    """Adds deltas and sets gauges; returns the number of gauges without a value."""
    numbers, expires_ms = client.numbers, client.expires_ms
    for series, delta in zip(binding.deltas, push.deltas, strict=True):
        numbers[series.at + 1] += delta
    without_value = 0
    for series, value in zip(binding.gauges, push.gauges, strict=True):
        if value != value:
            without_value += 1
            series.hide()
            continue
        at = series.at
        numbers[at], numbers[at + 1], numbers[at + 2] = 0.0, value, 0.0
        series.expires_ms = expires_ms
    if binding.gauges:
        client.check_ms = min(client.check_ms, expires_ms)
    return without_value


def _without_last(lines: str) -> str:
    return lines[: lines.rfind("\n", 0, -1) + 1]


def _waits_ms(client: Client, now: Moment) -> int:
    """Time from now until three push intervals after the receipt of a client's latest push [ms].

    With an interval of 60 s and a push that was received 20 s ago, 160 s.
    """
    age_ms = max(0, now.wall_us - client.received_at) // 1_000
    return ABSENT_INTERVALS * client.expected_interval_ms - age_ms


def _key(record: PushRecord) -> ClientKey:
    return record.principal, record.client_instance_id

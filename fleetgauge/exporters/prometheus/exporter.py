"""The exporter: sums up pushes into client series, and serves them on a page of its own (docs/deliver/prometheus.md).

A batch is applied in memory, saved, and only then shown. A push that is delivered again, after a crash or a failed
save, is recognised by its push id and counted once.
"""

import threading
from collections.abc import Mapping
from typing import Final

from google.protobuf.message import DecodeError

from fleetgauge.base.clock import SystemTime, Time
from fleetgauge.base.library_log import get_logger
from fleetgauge.base.presence import IntervalOf
from fleetgauge.exporters.exporter import Delivered, Outcome, RefusedRecord, Retry
from fleetgauge.exporters.prometheus.client_codec import decode_client
from fleetgauge.exporters.prometheus.page import OPENMETRICS, OWN_NAMES, TEXT, prefers_openmetrics, render
from fleetgauge.exporters.prometheus.page_server import Page, PageServer
from fleetgauge.exporters.prometheus.points import PushPoints, PushReader
from fleetgauge.exporters.prometheus.series import encode_key
from fleetgauge.exporters.prometheus.settings import PrometheusSettings, prometheus_settings
from fleetgauge.exporters.prometheus.shapes import AlikePush, Shapes
from fleetgauge.exporters.prometheus.table import Moment, SeriesTable
from fleetgauge.exporters.state_file import StateError, StateFile
from fleetgauge.push_log.log import Batch
from fleetgauge.telemetry.push_record import PushRecord

log = get_logger(__name__)

_MAX_POINTS: Final = 20_000
"""Maximum of one push: several times what any known client sends."""
_END_OF_TIME_US: Final = 1 << 60
"""Bound of `received_at`: a record of a topic may have any time of receipt."""


class PrometheusExporter:
    """Serves the series of all clients.

    Args:
        name: the name in `[exporters.<name>]`.
        settings: see `PrometheusSettings`.
        time: the clocks.
    """

    def __init__(self, name: str, settings: PrometheusSettings, *, time: Time | None = None) -> None:
        self.name = name
        self.settings = settings
        self.batch = settings.batch
        self.retry = settings.retry
        self._time = time or SystemTime()
        self._table = SeriesTable(settings.series, settings.labels, OWN_NAMES)
        self._reader = PushReader(
            max_points=max(_MAX_POINTS, 2 * settings.series.max_per_client),
            max_value_bytes=settings.labels.max_value_bytes,
            reserved=self._table.labels.reserved,
        )
        self._shapes = Shapes(self._reader)
        self._lock = threading.Lock()
        self._state: StateFile | None = None
        self._applied: list[PushRecord] = []
        self._server: PageServer | None = None
        self._closed = False

    @property
    def url(self) -> str | None:
        """URL of the page; None while it is not served."""
        return self._server.url if self._server else None

    @property
    def destination(self) -> str:
        """Address of the page."""
        return str(self.settings.listen)

    def start(self) -> None:
        """Loads the counters of earlier runs, and serves the page.

        Raises:
            StateError: the state cannot be read.
            PageError: the page's address cannot be bound.
        """
        with self._lock:
            if self._closed:
                return
            if self._state is None:
                state = StateFile(self.settings.state_file)
                try:
                    self._restore(state)
                except BaseException:
                    state.close()
                    raise
                self._state = state
            if self._server is None:
                self._server = PageServer(self.name, self.settings.listen, self._page, self.settings.access)
                log.info("prometheus.page_served", exporter=self.name, url=self._server.url)

    def allow_intervals(self, interval_ms: IntervalOf, *, anew: bool) -> None:
        """See `SeriesTable.allow_intervals`; from any thread."""
        self._table.allow_intervals(interval_ms, self._now(), anew=anew)

    def close(self) -> None:
        """Stops serving the page; may be called twice."""
        with self._lock:
            self._closed = True
            if self._server is not None:
                self._server.close()
            if self._state is not None:
                self._state.close()
            self._server = self._state = None

    def export(self, batch: Batch) -> Outcome:
        """Applies a batch's pushes, saves the changes, and shows them."""
        with self._lock:
            if self._state is None:
                return Retry(reason="closed", detail="the exporter is not started, or closed")
            refused = self._apply(batch, self._state)
            if self._state.needs_full_save:
                self._table.change_all()
            changes = self._table.take_changes()
            try:
                self._state.save(changes.saved, [encode_key(key) for key in changes.removed], self._applied)
            except StateError as error:
                self._applied = [record._replace(metrics=b"") for record in self._applied]  # they may be kept for long
                self._table.give_back(changes)
                return Retry(reason="state", detail=str(error))
            self._applied.clear()
            self._table.publish(changes)
        self._table.sweep(self._time.hi_res_clock_ms())
        return Delivered(refused=refused)

    def _apply(self, batch: Batch, state: StateFile) -> tuple[RefusedRecord, ...]:
        """Applies the pushes that were not applied before; those of a batch whose save failed are in `_applied`."""
        refused: list[RefusedRecord] = []
        unsaved = {record.push_id for record in self._applied}
        taken: set[str] = set()
        now = self._now()
        for record in batch.records:
            if record.push_id in unsaved:
                continue
            if not 0 <= record.received_at < _END_OF_TIME_US:
                detail = f"received_at is {record.received_at}"
                refused.append(RefusedRecord(push_id=record.push_id, reason="bad_received_at", detail=detail))
                continue
            try:
                points = self._table.alike(record) or self._read(record)
            except DecodeError as error:
                detail = f"the payload is not a well-formed MetricsData: {error}"
                refused.append(RefusedRecord(push_id=record.push_id, reason="malformed_payload", detail=detail))
                continue
            latest = self._table.latest(record)
            if record.push_id in taken or state.taken.is_repeat(record, latest, points.time_unix_nano):
                self._table.counts.repeated_pushes += 1
                continue
            # Noted before it is applied: a push that fails half-way is never applied twice.
            self._applied.append(record)
            taken.add(record.push_id)
            self._take(record, points, now)
        return tuple(refused)

    def _read(self, record: PushRecord) -> PushPoints:
        return self._reader.read(record.metrics) if record.metrics else PushPoints()

    def _take(self, record: PushRecord, points: PushPoints | AlikePush, now: Moment) -> None:
        if isinstance(points, AlikePush):
            if self._table.apply_alike(record, points, now):
                return
            points = self._read(record)
        self._table.apply(record, points, now)
        if record.metrics:
            self._learn(record)

    def _learn(self, record: PushRecord) -> None:
        """Makes the next pushes be read by the shape of this one.

        Learning a shape costs more than parsing a push: it is tried for the 2nd, 4th, 8th, ... push in a row that
        differs from the previous one, so that clients that push once, or differently each time, cost hardly more.
        """
        unlike = self._table.count_unlike(record)
        shape = self._shapes.find(record.metrics)
        if shape is None and unlike > 1 and unlike & (unlike - 1) == 0:
            shape = self._shapes.learn(record.metrics)
        if shape is not None:
            self._table.bind(record, shape)

    def _restore(self, state: StateFile) -> None:
        damaged = 0
        for saved in state.load():
            try:
                client, descriptions = decode_client(saved)
            except ValueError:
                damaged += 1
                continue
            self._table.restore(client, descriptions, self._now())
        if damaged:
            log.error("prometheus.clients_unreadable", message="their counters restart", clients=damaged)

    def _page(self, accept: str) -> Page:
        self._table.sweep(self._time.hi_res_clock_ms())
        openmetrics = prefers_openmetrics(accept)
        return Page(OPENMETRICS if openmetrics else TEXT, render(self._table, openmetrics=openmetrics))

    def _now(self) -> Moment:
        return Moment(self._time.hi_res_clock_ms(), self._time.microseconds())


def prometheus_exporter(name: str, values: Mapping[str, object]) -> PrometheusExporter:
    """Makes an exporter from the keys of `[exporters.<name>]`, which `PrometheusSettings` lists.

    Raises:
        ExporterConfigError: a key is unknown, or a value is not allowed.
    """
    return PrometheusExporter(name, prometheus_settings(name, values))

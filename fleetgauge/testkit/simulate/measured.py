"""Measurements of each library: its windows, its units, what it rounds, what it leaves out.

Java keeps averages and maxima of its last two samples of 30 s, librdkafka and franz-go those since the last push. Java
sends NaN where nothing was recorded, librdkafka 0, franz-go nothing.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from fleetgauge.fleet.measures.catalogue import MEASURES
from fleetgauge.telemetry.catalogue.standard_metrics import KAFKA_PREFIX, KnownMetric, selected
from fleetgauge.testkit.simulate.pathologies import BUFFER_BYTES
from fleetgauge.testkit.simulate.payloads import Labels, Point
from fleetgauge.testkit.simulate.physics import LINKS, PEAKS, SUMS, TICK_S, Ticks
from fleetgauge.testkit.simulate.plan import Process
from fleetgauge.testkit.simulate.world import App, Numbers

Measured = dict[str, Numbers]
"""Name of a measurement -> [push], or [push, node], or [push, partition]."""

_HOUR_S: Final = 3600.0
_SAMPLE_S: Final = 30.0
_OFF_LINE: Final = "time.between.network.thread.poll"
"""Metrics of consumers with `group.protocol=consumer`, which are not simulated."""


@dataclass(slots=True, kw_only=True)
class Pushes:
    """Some pushes of one instance, between two rebalances.

    Attributes:
        at_s, before_s: when each is made, and the one before; for the first, when the instance started [s].
        is_first: of the instance.
        nodes: indices of the brokers that it talks to.
        partitions: as the fleet numbers them; those that it has.
        last_rebalance_s: when its group rebalanced before each, NaN if it never did.
        rebalances_an_hour: how many in the hour before each.
    """

    process: Process
    app: App
    at_s: Numbers
    before_s: Numbers
    is_first: Numbers
    nodes: Numbers
    partitions: Numbers
    last_rebalance_s: Numbers
    rebalances_an_hour: Numbers
    window_s: float


class Reading:
    """Reads the ticks of one slot for these pushes."""

    def __init__(self, ticks: Ticks, pushes: Pushes) -> None:
        slot = pushes.process.slot
        self._ticks, self._pushes = ticks, pushes
        self._sums, self._peaks = ticks.sums[:, slot], ticks.peaks[:, slot]
        self._links = ticks.links[:, slot][:, :, pushes.nodes]
        self._slowest = ticks.slowest_ms[:, slot][:, pushes.nodes]
        flat = np.concatenate([self._sums, self._links.reshape(len(self._links), -1)], axis=1)
        self._before = np.concatenate([np.zeros((1, flat.shape[1])), np.cumsum(flat, axis=0)])
        self._flat = flat
        self.growth = self._between(pushes.before_s, pushes.at_s)
        self.is_java = pushes.app.software.library == "java"
        begin_s = np.maximum(pushes.at_s - pushes.window_s, pushes.process.start_s) if self.is_java else pushes.before_s
        self.window = self._between(begin_s, pushes.at_s)
        self.window_s = np.maximum(pushes.at_s - begin_s, 1.0)
        self._rows = self._index(begin_s), self._index(pushes.at_s)

    def _index(self, at_s: Numbers) -> Numbers:
        return np.clip(((at_s - self._ticks.begin_s) // TICK_S).astype(np.int64), 0, len(self._flat) - 1)

    def _until(self, at_s: Numbers) -> Numbers:
        index = self._index(at_s)
        part = np.clip((at_s - self._ticks.begin_s) / TICK_S - index, 0, 1)
        sums: Numbers = self._before[index] + part[:, None] * self._flat[index]
        return sums

    def _between(self, begin_s: Numbers, end_s: Numbers) -> Numbers:
        amounts: Numbers = np.maximum(self._until(end_s) - self._until(begin_s), 0)
        return amounts

    def grown(self, name: str) -> Numbers:
        """Amounts since the push before, whole."""
        return np.rint(self.growth[:, SUMS.index(name)])

    def amount(self, name: str) -> Numbers:
        """Amounts in the library's window."""
        amounts: Numbers = self.window[:, SUMS.index(name)]
        return amounts

    def mean(self, name: str, over: str | Numbers) -> Numbers:
        """An average, weighted with another amount in the library's window; NaN without any."""
        weights = self.amount(over) if isinstance(over, str) else over
        return _ratio(self.amount(name), weights)

    def peak(self, name: str) -> Numbers:
        """The largest value in the library's window; NaN if it is 0."""
        column = self._peaks[:, PEAKS.index(name)]
        peaks = np.array([column[begin : end + 1].max() for begin, end in zip(*self._rows, strict=True)])
        return np.where(peaks > 0, peaks, np.nan)

    def links(self, name: str, *, grown: bool = False) -> Numbers:
        """[push, node]: amounts in the window, or since the push before."""
        amounts = (self.growth if grown else self.window)[:, len(SUMS) :].reshape(
            len(self.growth), len(LINKS), len(self._pushes.nodes)
        )
        column: Numbers = amounts[:, LINKS.index(name)]
        return column

    def slowest(self) -> Numbers:
        """[push, node]: the largest latency [ms]; NaN without a request."""
        slowest = np.array([self._slowest[begin : end + 1].max(axis=0) for begin, end in zip(*self._rows, strict=True)])
        return np.where((slowest > 0) & (self.links("requests") > 0.5), slowest, np.nan)

    def lag(self) -> tuple[Numbers, Numbers, Numbers]:
        """[push, partition]: records behind now, on average and at most."""
        lag = np.floor(self._ticks.lag[:, self._pushes.partitions])
        begin, end = self._rows
        now = lag[end]
        mean = np.array([lag[one : other + 1].mean(axis=0) for one, other in zip(begin, end, strict=True)])
        most = np.array([lag[one : other + 1].max(axis=0) for one, other in zip(begin, end, strict=True)])
        return now, mean, most

    def last(self, name: str) -> Numbers:
        """A value of now: `backlog` or `assigned`."""
        values: Numbers = getattr(self._ticks, name)[self._rows[1], self._pushes.process.slot]
        return values


def measure(ticks: Ticks, pushes: Pushes) -> Measured:
    """Measurements of the library in these pushes."""
    reading = Reading(ticks, pushes)
    measured = _of_producer(reading, pushes) if pushes.app.role == "producer" else _of_consumer(reading, pushes)
    measured |= _of_connections(reading, pushes)
    if pushes.app.software.library == "librdkafka":
        return {name: np.nan_to_num(values) for name, values in measured.items()}
    return measured


def _of_connections(reading: Reading, pushes: Pushes) -> Measured:
    requests = reading.links("requests")
    latency_ms = _ratio(reading.links("latency_ms"), np.where(requests > 0.5, requests, 0))
    if pushes.app.software.library == "franz-go":
        latency_ms = np.maximum(latency_ms - 0.5, 0.01)  # it cuts milliseconds off, request by request
    elif pushes.app.software.library == "librdkafka":
        latency_ms = np.round(latency_ms, 3)
    if pushes.app.role == "consumer" and not pushes.app.software.sends_consumer_latency:
        latency_ms = np.full_like(latency_ms, np.nan)
    total = requests.sum(axis=1)
    rate = reading.amount("created") / _samples_s(reading)
    slowest = np.where(np.isnan(latency_ms), np.nan, reading.slowest())
    grown = reading.links("requests", grown=True)
    sent, received = (np.rint(reading.links(name, grown=True)) for name in ("sent_bytes", "received_bytes"))
    return {
        "connection.creation.total": reading.grown("created"),
        "connection.creation.rate": rate,
        "connection.close.total": reading.grown("closed"),
        "connection.count": np.full(len(rate), len(pushes.nodes) + 1.0 + (pushes.app.role == "consumer")),
        "nothing": np.zeros(len(rate)),
        "node.request.latency.avg": latency_ms,
        "node.request.latency.max": slowest,
        "node.request.total": np.rint(grown),
        "node.request.rate": requests / _samples_s(reading)[:, None],
        "node.request.size.avg": _ratio(reading.links("sent_bytes"), requests),
        "node.incoming.byte.total": received,
        "node.outgoing.byte.total": sent,
        "node.outgoing.byte.rate": reading.links("sent_bytes") / _samples_s(reading)[:, None],
        "request.total": np.rint(grown.sum(axis=1)),
        "request.rate": total / _samples_s(reading),
        "request.size.avg": _ratio(reading.links("sent_bytes").sum(axis=1), total),
        "incoming.byte.total": received.sum(axis=1),
        "outgoing.byte.total": sent.sum(axis=1),
        "outgoing.byte.rate": reading.links("sent_bytes").sum(axis=1) / _samples_s(reading),
        "request.latency.avg": _ratio(
            np.nansum(latency_ms * requests, axis=1), np.where(np.isnan(latency_ms), 0, requests).sum(axis=1)
        ),
        "request.latency.max": np.fmax.reduce(slowest, axis=1) if slowest.shape[1] else np.full(len(rate), np.nan),
    }


def _samples_s(reading: Reading) -> Numbers:
    """Divisor of Java's rates [s]: at least one whole sample and the present one."""
    divisor_s: Numbers = np.maximum(reading.window_s, _SAMPLE_S) if reading.is_java else reading.window_s
    return divisor_s


def _of_producer(reading: Reading, pushes: Pushes) -> Measured:
    requests = reading.links("requests").sum(axis=1)
    records, seconds = reading.amount("records"), _samples_s(reading)
    bytes_a_record = _ratio(reading.amount("raw_bytes"), records)
    ratio = _ratio(reading.amount("bytes"), reading.amount("raw_bytes"))
    batches = np.where(requests > 0.5, requests, 0)
    blocked = reading.amount("blocked_s") / seconds
    backlog = reading.last("backlog")
    if pushes.app.software.library == "java":
        throttle_avg, throttle_max = reading.mean("throttle_ms", batches), np.nan_to_num(reading.peak("throttle_ms"))
        throttle_max = np.where(np.isnan(throttle_avg), np.nan, throttle_max)
    else:  # of responses that say they were throttled
        throttle_avg = reading.mean("throttle_ms", "throttled")
        throttle_max = np.where(np.isnan(throttle_avg), np.nan, reading.peak("throttle_ms"))
    batch_bytes = _ratio(reading.amount("bytes"), batches)
    return {
        "record.send.total": reading.grown("records"),
        "record.send.rate": records / seconds,
        "record.error.total": reading.grown("errors"),
        "record.error.rate": reading.amount("errors") / seconds,
        "record.retry.total": reading.grown("retries"),
        "byte.total": reading.grown("bytes"),
        "compression.rate": ratio,
        "batch.size.avg": batch_bytes,
        "batch.size.max": np.ceil(batch_bytes * 1.7),
        "records.per.request.avg": np.maximum(_ratio(records, batches), 1),
        "record.size.avg": bytes_a_record,
        "record.queue.time.avg": reading.mean("queue_ms", batches),
        "record.queue.time.max": np.where(batches > 0, np.ceil(reading.peak("queue_ms")), np.nan),
        "produce.throttle.time.avg": throttle_avg,
        "produce.throttle.time.max": throttle_max,
        "bufferpool.wait.ratio": blocked,
        "buffer.exhausted.total": reading.grown("exhausted"),
        "buffer.available.bytes": np.floor(BUFFER_BYTES - np.minimum(backlog, BUFFER_BYTES)),
        "buffer.total.bytes": np.full(len(backlog), float(BUFFER_BYTES)),
        "waiting.threads": np.where(blocked > 0.01, 1.0, 0.0),
        "requests.in.flight": np.where(backlog > 0, 5.0, np.floor(np.minimum(requests / seconds / 50, 5))),
    }


def _of_consumer(reading: Reading, pushes: Pushes) -> Measured:
    requests = reading.links("requests")
    fetches, seconds = requests.sum(axis=1), _samples_s(reading)
    latency_ms = reading.links("latency_ms").sum(axis=1)
    has_fetched = np.where(fetches > 0.5, fetches, 0)
    now, mean, most = reading.lag()
    polls = np.where(reading.amount("polls") >= 1, reading.amount("polls"), 0)
    recent = reading.amount("rebalances") > 0.5
    rebalances = np.where(recent, reading.amount("rebalances"), 0)
    an_hour = pushes.rebalances_an_hour
    if pushes.app.software.version.startswith("3."):  # a rate of its last minute, as an hour
        an_hour = np.rint(reading.amount("rebalances")) / seconds * _HOUR_S
    consumed = reading.amount("consumed")
    fetch_bytes = _ratio(reading.amount("consumed_bytes"), has_fetched)
    tbp_max = np.where(polls > 0, reading.peak("tbp_ms"), np.nan)
    return {
        "poll.idle.ratio.avg": reading.mean("idle", polls),
        "last.poll.seconds.ago": np.floor(np.nan_to_num(reading.mean("tbp_ms", polls)) / 2000),
        "time.between.poll.avg": reading.mean("tbp_ms", polls),
        "time.between.poll.max": tbp_max,
        "fetch.total": np.rint(reading.links("requests", grown=True).sum(axis=1)),
        "fetch.rate": fetches / seconds,
        "fetch.latency.avg": _ratio(latency_ms, has_fetched),
        "fetch.latency.max": np.where(has_fetched > 0, np.nan_to_num(reading.slowest()).max(axis=1, initial=0), np.nan),
        "fetch.throttle.time.avg": np.where(has_fetched > 0, 0.0, np.nan),
        "fetch.size.avg": fetch_bytes,
        "fetch.size.max": np.ceil(fetch_bytes * 2.2),
        "records.consumed.total": reading.grown("consumed"),
        "bytes.consumed.total": reading.grown("consumed_bytes"),
        "records.per.fetch": np.maximum(_ratio(consumed, has_fetched), 1),
        "records.lag": now,
        "records.lag.avg": mean,
        "records.lag.max": most,
        "client.lag.max": most.max(axis=1) if most.shape[1] else np.full(len(fetches), np.nan),
        "commit.total": reading.grown("commits"),
        "commit.latency.avg": np.round(reading.mean("commit_ms", "commits"), 3),
        "commit.latency.max": reading.peak("commit_ms"),
        "assigned.partitions": np.full(len(fetches), float(len(pushes.partitions))),
        "rebalance.total": reading.grown("rebalances"),
        "rebalance.rate.per.hour": an_hour,
        "rebalance.latency.avg": reading.mean("rebalance_ms", rebalances),
        "rebalance.latency.max": np.where(recent, reading.peak("rebalance_ms"), np.nan),
        "rebalance.latency.total": reading.grown("rebalance_ms"),
        "last.rebalance.seconds.ago": np.where(
            np.isnan(pushes.last_rebalance_s), -1, np.floor(pushes.at_s - pushes.last_rebalance_s)
        ),
    }


def _ratio(above: Numbers, below: Numbers) -> Numbers:
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)


def _known(role: str) -> list[KnownMetric]:
    """The metrics of a Java client that the fleet's subscription asks for: those that `fleet run` reads."""
    asked = sorted({name for measure in MEASURES for name in measure.names})
    return [metric for metric in selected(asked) if role in metric.roles and _OFF_LINE not in metric.name]


_JAVA_KEYS: Final = {
    "failed.authentication.total": "nothing",
    "failed.reauthentication.total": "nothing",
    "failed.rebalance.total": "nothing",
    "failed.rebalance.rate.per.hour": "nothing",
    "batch.split.total": "nothing",
    "fetch.throttle.time.max": "fetch.throttle.time.avg",
    "compression.rate.avg": "compression.rate",
}
"""Names of Java's metrics without their groups, and the measurements that they have, where these differ."""

_NODES_ALONE: Final = -1
"""Column of a link on which nothing but metadata is asked for."""


def java_points(app: App, nodes: list[int], node_names: list[str], partitions: list[int]) -> list[Point]:
    """Every metric asked for, with each broker, topic and partition.

    Args:
        app: whose instance it is.
        nodes: columns of measurements; `_NODES_ALONE` for links to bootstrap servers and coordinators.
        node_names: of these.
        partitions: numbers within the topic.
    """
    topics = [app.topic]
    if app.role == "consumer":  # before 4.0 with underscores, since then both
        topics = [app.topic.replace(".", "_"), app.topic][: 1 if app.software.version.startswith("3.") else 2]
    points: list[Point] = []
    for metric in _known(app.role):
        name, short = metric.name.removeprefix(KAFKA_PREFIX), metric.kafka_name.replace("-", ".")
        if metric.attributes == ("node_id",):
            points += [
                Point(name, (("node_id", node),), "double", f"node.{short}", column)
                for column, node in zip(nodes, node_names, strict=True)
            ]
        elif metric.attributes == ("topic", "partition"):
            points += _of_partitions(name, short, topics, partitions)
        else:
            key = "records.per.fetch" if (app.role, short) == _PER_FETCH else _JAVA_KEYS.get(short, short)
            labels: list[Labels] = [(("topic", topic),) for topic in topics] if metric.attributes else []
            if not metric.attributes or app.role == "consumer":
                labels = [(), *labels]
            points += [Point(name, each, "double", key) for each in labels]
    return points


_PER_FETCH: Final = ("consumer", "records.per.request.avg")


def _of_partitions(name: str, key: str, topics: list[str], partitions: list[int]) -> list[Point]:
    points = [
        Point(name, (("topic", topic), ("partition", str(partition))), "double", key, column)
        for topic in topics
        for column, partition in enumerate(partitions)
    ]
    return [Point(name, (), "double", "client.lag.max"), *points] if key == "records.lag.max" else points


def librdkafka_points(app: App, nodes: list[int], node_ids: list[int]) -> list[Point]:
    """All its metrics: of nodes that it knows, in use or not."""
    known = _OF_LIBRDKAFKA[app.role]
    points: list[Point] = []
    for short in known:
        number = "int" if short.endswith((".total", ".max", "assigned.partitions")) else "double"
        name = f"{app.role}.{short}"
        if short.startswith("node."):
            for column, node_id in zip(nodes, node_ids, strict=True):
                points.append(Point(name, (("node.id", node_id),), number, short, column))  # type: ignore[arg-type]
        else:
            key = short.removeprefix("coordinator.").removeprefix("fetch.manager.")
            points.append(Point(name, (), number, key))  # type: ignore[arg-type]
    return points


def franz_go_points(app: App, nodes: list[int], node_ids: list[int]) -> list[Point]:
    """All its metrics, of which those that are 0 are left out of a push."""
    points: list[Point] = []
    for short in _OF_FRANZ_GO[app.role]:
        number = "int" if short.endswith((".total", ".max")) else "double"
        name = f"{app.role}.{short}"
        if short.startswith("node."):
            for column, node_id in zip(nodes, node_ids, strict=True):
                points.append(Point(name, (("node_id", node_id),), number, short, column))  # type: ignore[arg-type]
        else:
            points.append(Point(name, (), number, short.removeprefix("coordinator.")))  # type: ignore[arg-type]
    return points


_OF_LIBRDKAFKA: Final = {
    "producer": (
        "connection.creation.rate",
        "connection.creation.total",
        "node.request.latency.avg",
        "node.request.latency.max",
        "produce.throttle.time.avg",
        "produce.throttle.time.max",
        "record.queue.time.avg",
        "record.queue.time.max",
        "request.latency.avg",
        "request.latency.max",
    ),
    "consumer": (
        "connection.creation.rate",
        "connection.creation.total",
        "node.request.latency.avg",
        "node.request.latency.max",
        "coordinator.assigned.partitions",
        "coordinator.rebalance.latency.avg",
        "coordinator.rebalance.latency.max",
        "coordinator.rebalance.latency.total",
        "fetch.manager.fetch.latency.avg",
        "fetch.manager.fetch.latency.max",
        "poll.idle.ratio.avg",
        "coordinator.commit.latency.avg",
        "coordinator.commit.latency.max",
    ),
}
_OF_FRANZ_GO: Final = {
    "producer": (
        "connection.creation.rate",
        "connection.creation.total",
        "node.request.latency.avg",
        "node.request.latency.max",
        "produce.throttle.time.avg",
        "produce.throttle.time.max",
    ),
    "consumer": (
        "connection.creation.rate",
        "connection.creation.total",
        "node.request.latency.avg",
        "node.request.latency.max",
        "coordinator.commit.latency.avg",
        "coordinator.commit.latency.max",
    ),
}


def values_of(measured: Measured, points: tuple[Point, ...]) -> Numbers:
    """[push, point]: the measurements in the order of the points."""
    some = next(iter(measured.values()))
    columns = []
    for point in points:
        values = measured[point.key]
        if point.column == _NODES_ALONE:
            values = np.full(len(some), np.nan if "latency" in point.name else 0.0)
        elif point.column is not None:
            values = values[:, point.column]
        columns.append(values)
    return np.stack(columns, axis=1) if columns else np.zeros((len(some), 0))

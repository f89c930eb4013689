"""One process of a client: the windows of its pushes, and points of metrics as columns with a value per push."""

import base64
import uuid
from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.fleet.second_fleet.clients import BEGIN_S, CLUSTERS, OLD_C, TICK_S, TICKS, App, Life, Slot, Values
from benchmarks.fleet.second_fleet.consumers import ConsumerTraffic
from benchmarks.fleet.second_fleet.otlp import Attribute, Layout, Point, render
from benchmarks.fleet.second_fleet.producers import ProducerTraffic
from benchmarks.fleet.second_fleet.world import World

Ticks = NDArray[np.int64]

ABSENT = -1e300
"""A point that is left out; NaN is what Java pushes of a metric without a value."""
PREFIX = "org.apache.kafka."
OF_ROLE = {"producer": "producer.", "consumer": "consumer.", "admin": "admin.client."}
JAVA_WINDOW_TICKS = 4
"""Java's averages are over the last 30 to 60 s, those of the others since the last push."""


class Windows:
    """The ticks that each push is about: since the last push, and those that averages are over."""

    def __init__(self, app: App, life: Life, start_s: float, times_s: Values) -> None:
        self.at: Ticks = np.minimum((times_s / TICK_S).astype(int), TICKS - 1)
        self.since = np.minimum(np.r_[int(start_s / TICK_S), self.at[:-1]], self.at)
        self.end = np.maximum(self.at, self.since + 1)
        first = np.maximum(self.end - JAVA_WINDOW_TICKS, int(life.start_s / TICK_S)) if app.is_java else self.since
        self.first = np.minimum(first, self.end - 1)
        self.lasts_s = np.maximum((self.end - self.first) * TICK_S, 10)

    def total(self, values: Values) -> Values:
        """Sums since the last push."""
        return _between(values, self.since, self.end)

    def window(self, values: Values) -> Values:
        """Sums over what averages are over."""
        return _between(values, self.first, self.end)

    def mean(self, values: Values, weights: Values | None = None) -> Values:
        """Averages of what there is; NaN where nothing is."""
        is_there = ~np.isnan(values)
        weight = is_there * (1.0 if weights is None else weights)
        sums, whole = self.window(np.where(is_there, values, 0) * weight), self.window(weight)
        with np.errstate(all="ignore"):
            return np.where(whole > 1e-9, sums / whole, np.nan)

    def last(self, values: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = values[np.maximum(self.end - 1, 0)]
        return found


def _between(values: Values, first: Ticks, end: Ticks) -> Values:
    sums = np.concatenate([np.zeros((1, *values.shape[1:])), np.cumsum(np.nan_to_num(values), 0)])
    found: Values = sums[end] - sums[first]
    return found


class Instance:
    """One process of a client, whose points are columns with a value per push."""

    def __init__(self, world: World, slot: Slot, number: int, life: Life, start_s: float, times_s: Values) -> None:
        random, app, traffic = world.random, slot.app, slot.traffic
        self.world, self.random, self.slot, self.app, self.life, self.number = world, random, slot, app, life, number
        self.start_s, self.times_s, self.pushes = start_s, times_s, len(times_s)
        self.nodes = world.brokers[app.cluster].count
        self.instance_id = base64.urlsafe_b64encode(uuid.UUID(bytes=random.bytes(16), version=4).bytes)[:22].decode()
        self.is_cumulative = app.cluster == list(CLUSTERS)[1]
        self.windows = windows = Windows(app, life, start_s, times_s)
        self.spaced_s = np.maximum(np.diff(np.r_[start_s, times_s]), 1)
        self._points: list[Point] = []
        self._values: list[Values] = []
        self._latencies(traffic.requests_per_s, traffic.latency_ms)
        self.connects = np.round(windows.total(traffic.connects))
        requests = windows.total(traffic.requests_per_s * TICK_S)
        self.requests = random.poisson(np.minimum(requests, 1e7))

    def _latencies(self, per_s: Values, latency_ms: Values) -> None:
        """Draws averages and maxima by broker, and over all, from how many responses there were."""
        random, windows = self.random, self.windows
        self.asked = windows.window(per_s * TICK_S)
        mean_ms = windows.window(latency_ms * per_s * TICK_S) / np.maximum(self.asked, 1e-9)
        count = random.poisson(np.minimum(self.asked, 1e6))
        noise = np.exp(random.normal(size=count.shape) * np.minimum(0.9, 0.8 / np.sqrt(np.maximum(count, 1))) - 0)
        average_ms = np.where(count > 0, mean_ms * np.clip(noise, 0.4, 3), np.nan)
        has_tail = random.random(count.shape) < np.minimum(0.25, count * 2e-5)
        tail_ms = np.where(has_tail, random.uniform(60, 260, count.shape), 0)
        spread = 1 + 0.55 * np.log1p(count) * random.uniform(0.6, 1.4, count.shape)
        most_ms = np.where(count > 0, np.maximum(average_ms, average_ms * spread + tail_ms), np.nan)
        if self.app.role == "consumer":  # no fetch waits longer than it has to
            longest_ms = np.maximum(average_ms * 1.5, (5020 if self.app.is_go else 520) + tail_ms)
            most_ms = np.minimum(np.maximum(most_ms, average_ms), longest_ms)
        self.average_ms, self.most_ms, self.responses = average_ms, most_ms, count.sum(1)
        whole_ms = np.nansum(np.nan_to_num(average_ms) * count, 1) / np.maximum(self.responses, 1)
        self.average_of_all_ms = self.if_any(whole_ms)
        self.most_of_all_ms = self.if_any(np.fmax.reduce(np.nan_to_num(most_ms, nan=-1), 1))

    def if_any(self, values: Values | float) -> Values:
        """NaN where there was no response."""
        return np.where(self.responses > 0, values, np.nan)

    def point(
        self,
        name: str,
        values: Values,
        attributes: tuple[Attribute, ...] = (),
        *,
        is_sum: bool = False,
        is_int: bool = False,
        has_start: bool | None = None,
    ) -> None:
        starts = is_sum if has_start is None else has_start
        self._points.append(
            Point(name=PREFIX + name, is_sum=is_sum, is_int=is_int, attributes=attributes, has_start=starts)
        )
        self._values.append(values)

    def gauge(self, name: str, values: NDArray[Any] | float, *attributes: Attribute, is_int: bool = False) -> None:
        """A gauge; those of librdkafka have a start time."""
        columns = np.asarray(values, float) if np.ndim(values) else np.full(self.pushes, float(values))
        has_start = self.app.is_librdkafka
        self.point(OF_ROLE[self.app.role] + name, columns, attributes, is_int=is_int, has_start=has_start)

    def total(self, name: str, growth: NDArray[Any], *attributes: Attribute, is_int: bool = False) -> None:
        """A sum, from what it grew by since the last push."""
        values = np.asarray(growth, float)
        if is_int or (name.endswith("total") and "time" not in name):
            values = np.round(values)
        if self.is_cumulative:
            values = np.cumsum(np.nan_to_num(values))
            if self.app.is_go:  # franz-go leaves out what has never happened
                values = np.where(values > 0, values, np.nan)
        self.point(OF_ROLE[self.app.role] + name, values, attributes, is_sum=True, is_int=is_int)

    def records_per_request(self) -> Values:
        traffic, mean = self.slot.traffic, self.windows.mean
        found: Values = mean(traffic.records_per_s.sum(1)) / np.maximum(mean(traffic.requests_per_s.sum(1)), 1e-9)
        return found

    def producer_times(self, traffic: ProducerTraffic) -> tuple[Values, Values, Values]:
        """Throttle time, its maximum, and queue time [ms]."""
        sent, windows = traffic.records_per_s.sum(1), self.windows
        throttle_ms = windows.mean(traffic.throttle_ms.max(1))
        most_ms = np.where(np.nan_to_num(throttle_ms) > 0, throttle_ms * 1.6, 0)
        queued_ms = windows.mean(traffic.queued_ms, sent + 1e-9)
        return throttle_ms, most_ms, np.where(windows.mean(sent) * windows.lasts_s > 1, queued_ms, np.nan)

    def commits(self, traffic: ConsumerTraffic) -> tuple[NDArray[np.int64], Values]:
        """How many there were, and their latency [ms]; a paused consumer goes on with them unless it commits itself."""
        windows, coordinator = self.windows, number_of(self.app.name) % self.nodes
        commits = traffic.polls & ~(traffic.is_frozen & (self.app.commits == "manual"))
        share = windows.mean(np.where(commits, 1.0, 0.0))
        count = self.random.poisson(0.2 * windows.lasts_s * share)
        return count, np.where(count > 0, windows.mean(traffic.plain_ms[:, coordinator]), np.nan)

    def rebalance_ms(self, traffic: ConsumerTraffic) -> Values:
        windows = self.windows
        count = windows.mean(traffic.rebalances) * windows.lasts_s / TICK_S
        took_ms = windows.mean(traffic.rebalances_ms) * windows.lasts_s / TICK_S
        found: Values = np.where(count > 0.5, took_ms / np.maximum(count, 1e-9), np.nan)
        return found

    def payloads(self, skew_s: NDArray[Any]) -> list[bytes]:
        app = self.app
        times = ((BEGIN_S + self.times_s + skew_s) * 1e9).astype(np.int64)
        first = int((BEGIN_S + self.start_s + skew_s[0]) * 1e9)
        starts = np.full(self.pushes, first) if self.is_cumulative else np.r_[first, times[:-1]]
        points, values = self._points, np.stack(self._values, 1)
        absent = np.isnan(values) if app.is_go else values == ABSENT
        if app.library is OLD_C:  # sends all twice
            points = points * 2
            values, absent = np.concatenate([values, values], 1), np.concatenate([absent, absent], 1)
        layout = self._layout()
        alike: dict[bytes, list[int]] = defaultdict(list)
        for push, row in enumerate(absent):
            alike[row.tobytes()].append(push)
        found = [b""] * self.pushes
        for pushes in alike.values():
            columns = np.flatnonzero(~absent[pushes[0]])
            if len(columns):
                made = render(
                    [points[each] for each in columns],
                    values[np.ix_(np.array(pushes), columns)],
                    starts[pushes],
                    times[pushes],
                    layout,
                )
                for push, payload in zip(pushes, made, strict=True):
                    found[push] = payload
        return found

    def _layout(self) -> Layout:
        app = self.app
        member = f"{self.slot.client_id}-{uuid.UUID(bytes=self.random.bytes(16))}"
        resource: list[Attribute] = []
        if app.role == "consumer" and not app.is_go:
            key = "member_id" if app.is_librdkafka else "group_member_id"
            resource = [("group_id", app.group), (key, member)]
        scope = ""
        if not app.is_java:
            role = "producer" if app.role == "producer" else "consumer"
            scope = "kgo" if app.is_go else f"{self.slot.client_id}#{role}-1"
        return Layout(per_point=app.is_java, resource=resource, scope=scope, is_cumulative=self.is_cumulative)


def number_of(name: str) -> int:
    """The same for a name in each run."""
    return sum(ord(letter) * (place + 7) for place, letter in enumerate(name))

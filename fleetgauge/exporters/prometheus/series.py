"""The values behind the page: a series, the metric (family) and the client that it belongs to.

A series belongs to one of each, so the three are defined together. `families` has the metrics of the page and their
bounds, `client_labels` makes labels, `table` holds everything.
"""

import json
import math
from array import array
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from operator import lt
from typing import Any, Final, NamedTuple

from fleetgauge.base.presence import expected_interval_ms
from fleetgauge.exporters.prometheus.names import Kind, MetricId, help_text
from fleetgauge.exporters.prometheus.points import GRID, Measurement, Mode, Values
from fleetgauge.exporters.prometheus.shapes import Identity, Shape

NEVER: Final = 1 << 62
"""A deadline that never passes [ms]."""
_NO_START: Final = 1.0
"""Instead of the start of a cumulative count, for hidden series that never had one."""
_UNKNOWN_START: Final = math.inf
"""Instead of the start of a cumulative count whose client sends none: no start is after it."""

ClientKey = tuple[str, str]
"""Principal and client instance id: no client can change another's series by pushing under its id."""

FOLDED: Final[ClientKey] = ("\0folded", "")
"""The key of the pseudo-client that has the series into which others were folded."""


def encode_key(key: ClientKey) -> str:
    """A client's key as text."""
    return json.dumps(key)


class Series:
    """The sum of the measurements of one metric and set of labels of one client.

    A value is `base + last`: `base` is the count before the latest reset, `last` the client's latest cumulative count
    plus the deltas since. So a cumulative count is shown exactly as sent until it is reset, and a client that changes
    from deltas to cumulative counts, or back, continues to count.

    The numbers are in one array with those of the client's other series, in the form in which they are saved: `base` of
    every value, `last` of every value, and the start of the cumulative count [ns since the epoch], 0 if there has been
    none, below 0 while the client sends no value: the series is not on the page then, and goes on from its value later.

    Attributes:
        labels: labels of its data points, as text.
        bounds: bounds of a histogram's buckets, or a summary's quantiles; empty for a number.
        width: number of its values.
        client: the client that it belongs to.
        family: its metric on the page.
        at: index of its numbers in its client's arrays.
        expires_ms: when it is removed unless a push has it again [ms, monotonic]; `NEVER` if it lives with its client.
        created_unix_nano: start of its first measurement, for its line `_created`; 0 if it has none.
    """

    __slots__ = ("at", "bounds", "client", "created_unix_nano", "expires_ms", "family", "labels", "width")

    def __init__(self, client: "Client", labels: str, values: int, bounds: Values) -> None:
        self.client = client
        self.family: Family | None = None
        self.labels = labels
        self.bounds = bounds
        self.width = values
        self.at = 0
        self.expires_ms = NEVER
        self.created_unix_nano = 0

    @property
    def size(self) -> int:
        """Number of its numbers in the array."""
        return 2 * self.width + 1

    @property
    def cost(self) -> int:
        """Number of its samples on the page, without the start time."""
        return 1 if self.width == 1 else len(self.bounds) + 3

    @property
    def has_been_cumulative(self) -> bool:
        """True if a cumulative count was applied, which may include deltas of earlier times."""
        return abs(self.client.numbers[self.at + 2 * self.width]) > _NO_START

    def apply(self, measurement: Measurement, *, before_unix_nano: int) -> bool:
        """Adds a measurement that `fits`.

        Args:
            measurement: the measurement.
            before_unix_nano: the time of the client's previous push.

        Returns:
            True if a count was reset: it or one of its buckets fell, or it started after the previous push.
        """
        if measurement.mode == Mode.CUMULATIVE:
            return self.apply_cumulative(measurement.values, measurement.start_unix_nano, before_unix_nano)
        numbers, width = self.client.numbers, self.width
        numbers[self.at + 2 * width] = abs(numbers[self.at + 2 * width])
        counted = numbers[self.at] + numbers[self.at + width]
        for at, value in enumerate(measurement.values, start=self.at):
            last = at + width
            if measurement.mode == Mode.AS_IS:
                numbers[at], numbers[last] = 0.0, value
            elif numbers[last] == numbers[last] and value == value:
                numbers[last] += value
            elif value == value or not counted:
                numbers[last] = value
            # Otherwise it is the sum of a histogram, which this push leaves out: the earlier sum stays.
        return False

    def apply_cumulative(self, values: Values, start_unix_nano: int, before_unix_nano: int) -> bool:
        """Adds cumulative counts; arguments and result are as in `apply`.

        After deltas of 5 and 7, a count of 15 is shown as 15. If its start is after the last of them, or if it is only
        3, it was reset, and 27 and 15 are shown. So it was if one of its buckets fell, except those of an exponential
        histogram, whose counts move to larger buckets when its client lowers the scale.
        """
        numbers, width = self.client.numbers, self.width
        last = self.at + width
        started = float(start_unix_nano)  # the previous one was rounded, too
        restarted = (
            numbers[last] > 0 and started > abs(numbers[last + width]) and start_unix_nano >= before_unix_nano > 0
        )
        fell = values[0] < numbers[last] or (
            width > 1 and any(map(lt, values[2:], numbers[last + 2 : last + width])) and self.bounds != GRID
        )
        reset = restarted or fell
        for at, value in enumerate(values, start=self.at):
            if reset and numbers[at + width] == numbers[at + width]:
                numbers[at] += numbers[at + width]
            numbers[at + width] = value
        numbers[last + width] = started or _UNKNOWN_START
        return reset

    def hide(self) -> None:
        """Removes it from the page until the next measurement."""
        numbers, start = self.client.numbers, self.at + 2 * self.width
        numbers[start] = -(abs(numbers[start]) or _NO_START)

    @property
    def is_hidden(self) -> bool:
        """True while the client sends no value."""
        return self.client.numbers[self.at + 2 * self.width] < 0

    def fits(self, measurement: Measurement) -> bool:
        """True if the measurement has as many values and the same bounds."""
        return len(measurement.values) == self.width and measurement.bounds == self.bounds

    def shown(self) -> Values:
        """The values on the page, once its first value is saved; none while the client sends no value."""
        numbers, at, width = self.client.shown, self.at, self.width
        if numbers[at + 2 * width] < 0:
            return ()
        return tuple([numbers[place] + numbers[place + width] for place in range(at, at + width)])


class Family:
    """One metric on the page.

    Attributes:
        metric: the metric in the pushes.
        name: its name without the suffix of a counter.
        sample_name: name of the samples of a counter or gauge.
        is_number: it is a counter or gauge.
        unit: part of the name; may be empty.
        description: the text that a client sent.
        members: its series, each with its lines of the page; empty until they are written.
        cost: number of its samples.
    """

    __slots__ = ("cost", "description", "is_number", "members", "metric", "name", "sample_name", "unit")

    def __init__(self, metric: MetricId, name: str, unit: str, description: str) -> None:
        self.metric = metric
        self.name = name
        self.sample_name = f"{name}_total" if metric.kind == "counter" else name
        self.is_number = metric.kind in ("counter", "gauge")
        self.unit = unit
        self.description = description
        self.members: dict[Series, str] = {}
        self.cost = 0

    @property
    def kind(self) -> Kind:
        """Its type on the page."""
        return self.metric.kind

    @property
    def help(self) -> str:
        """Its help text on the page."""
        return help_text(self.metric, self.description)


class About(NamedTuple):
    """Attributes of a client, from its push records and from its resource.

    Attributes:
        record: texts by the names of `RECORD_LABELS`, without unknown ones.
        resource: the resource attributes of its pushes, values cut.
    """

    record: Mapping[str, str]
    resource: Mapping[str, str]


class Binding(NamedTuple):
    """A client's series, in the order of the numbers in pushes of a shape."""

    shape: Shape
    deltas: tuple[Series, ...]
    gauges: tuple[Series, ...]
    cumulative: tuple[Series, ...]


def _no_numbers() -> "array[float]":
    return array("d")


@dataclass(slots=True, eq=False)
class Client:
    """A client and its series.

    Attributes:
        key, saved_key: its identity, and the same as text.
        about: its attributes.
        identity, info: labels as text. A client whose labels clash with another's has no `info`: a second info series
            of an instance id would make queries that join by it fail.
        clashes: see `ClientLabels.identity`.
        series: by metric and labels of the data point.
        received_at: when its latest push was received [us since the epoch].
        time_unix_nano: the latest time of its data points; 0 before the first.
        interval_ms, before_ms: push intervals of its latest push and of the one before [ms]; 0 before there is one.
        allowed_ms: push interval that the subscriptions in force give it [ms]; None if they are not known.
        terminated: its latest push was a terminating one.
        expires_ms: when it is removed if no push comes [ms, monotonic].
        check_ms: no series of it expires before [ms, monotonic].
        cost: number of its samples on the page, including its `info`.
        layout_changed: series were added or removed, or its attributes changed, since it was saved.
        numbers: the numbers of its series, see `Series`.
        shown: the numbers that were last saved, without series that were removed since.
        written: the shown numbers when its lines were written; empty if all lines must be written again.
        binding: its latest push with metrics, if the next push can be read by the same shape; else None.
        unlike: number of consecutive pushes that were parsed in full.
        label_fields: the fields of its latest record that may become labels.
    """

    key: ClientKey
    about: About
    saved_key: str = field(init=False)
    identity: str = ""
    info: str = ""
    clashes: int = 0
    series: dict[MetricId, dict[str, Series]] = field(default_factory=dict)
    received_at: int = 0
    time_unix_nano: int = 0
    interval_ms: int = 0
    before_ms: int = 0
    allowed_ms: int | None = None
    terminated: bool = False
    expires_ms: int = NEVER
    check_ms: int = 0
    cost: int = 0
    layout_changed: bool = True
    numbers: "array[float]" = field(default_factory=_no_numbers)
    shown: "array[float]" = field(default_factory=_no_numbers)
    written: "array[float]" = field(default_factory=_no_numbers)
    binding: Binding | None = None
    unlike: int = 0
    label_fields: Any = None

    def __post_init__(self) -> None:
        self.saved_key = encode_key(self.key)

    @property
    def expected_interval_ms(self) -> int:
        """The push interval that it is waited for by [ms]; see `base.presence`."""
        return expected_interval_ms(None, self.interval_ms, self.before_ms, self.allowed_ms)

    def every_series(self) -> Iterable[tuple[MetricId, Series]]:
        """All its series, in a fixed order."""
        return ((metric, each) for metric, by_labels in self.series.items() for each in by_labels.values())

    def in_order(self) -> list[tuple[MetricId, Series]]:
        """All its series, in the order of their numbers."""
        return sorted(self.every_series(), key=lambda pair: pair[1].at)

    def add(self, metric: MetricId, series: Series) -> None:
        """Adds a new series, without numbers yet."""
        self.series.setdefault(metric, {})[series.labels] = series
        series.at = len(self.numbers)
        self.numbers.extend([0.0] * series.size)
        self.layout_changed = True
        self.binding = None

    def drop(self, removed: Collection[tuple[MetricId, Series]]) -> None:
        """Removes series, and closes the gaps between the numbers of the others."""
        for metric, series in removed:
            of_metric = self.series[metric]
            del of_metric[series.labels]
            if not of_metric:
                del self.series[metric]
        numbers, shown = array("d"), array("d")
        for _, series in self.in_order():
            at = len(numbers)
            numbers += self.numbers[series.at : series.at + series.size]
            shown += self.shown[series.at : series.at + series.size]  # empty for series that are not saved yet
            series.at = at
        self.numbers, self.shown, self.written = numbers, shown, array("d")
        self.layout_changed = True
        self.binding = None

    def bind(self, shape: Shape) -> None:
        """Makes the next pushes be read by a shape, if the client has a series for each of its numbers."""
        deltas, gauges, cumulative = map(self._bound, (shape.deltas, shape.gauges, shape.cumulative))
        if any(series.is_hidden for series in (*(deltas or ()), *(cumulative or ()))):
            return  # only a parsed push shows them again
        if deltas is not None and gauges is not None and cumulative is not None:
            self.binding = Binding(shape, deltas, gauges, cumulative)

    def _bound(self, identities: Iterable[Identity]) -> tuple[Series, ...] | None:
        each_series = [self.series.get(metric, {}).get(labels) for metric, labels in identities]
        bound = tuple([series for series in each_series if series is not None])
        return bound if len(bound) == len(each_series) else None

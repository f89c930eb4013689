"""One client as the page knows it: the labels of its series, what else is told of it, and the series themselves."""

import json
from collections.abc import Collection, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final, NamedTuple

from exporters.labels import NAMESPACE, RECORD_LABELS, LabelSettings
from exporters.prometheus.names import MetricId, cut, label_name, label_text, normalised
from exporters.prometheus.series import NEVER, Series, nothing
from exporters.prometheus.shapes import Identity, Shape
from telemetry.push_record import PushRecord

INSTANCE_LABEL: Final = "client_instance_id"
PRINCIPAL_LABEL: Final = "principal"
_CLASH_LABEL: Final = "clash"
_LABEL_NAMES: Final = {"node_id": "receiver_node_id"}
"""`node_id` of a data point is the broker of a link; the node that received the push is named as its record has it."""
_LEFT_OUT_OF_INFO: Final = frozenset({"client_source_port"})
"""It is another one after every reconnect, and each would be a new series."""
_MAX_INFO_TEXT: Final = 8_192

ClientKey = tuple[str, str]
"""Principal and client instance id: nobody disturbs another's series by pushing under its id."""

FOLDED: Final[ClientKey] = ("\0folded", "")
"""The key of the one that is no client: it has the series into which others were folded."""


told_of: Final = attrgetter(*RECORD_LABELS.values())
"""What a record says that may be in labels."""


def encode_key(key: ClientKey) -> str:
    """A client's key as text."""
    return json.dumps(key)


class About:
    """What is told of a client: the labels of its push records, and the attributes of its resource.

    Attributes:
        record: by the names of `RECORD_LABELS`, as text; what is not known is not in it.
        resource: as its pushes say, values cut.
    """

    __slots__ = ("record", "resource")

    def __init__(self, record: Mapping[str, str], resource: Mapping[str, str]) -> None:
        self.record = dict(record)
        self.resource = dict(resource)


class ClientLabels:
    """Makes the labels of clients, as an exporter's settings choose them.

    `client_instance_id` is always one of them: without it, two clients with one client id would be one series.

    Attributes:
        reserved: names of labels that no attribute of a data point may have.
    """

    def __init__(self, settings: LabelSettings) -> None:
        self._settings = settings
        chosen = [name for name in RECORD_LABELS if name in settings.labels and name != INSTANCE_LABEL]
        self._chosen = (INSTANCE_LABEL, *chosen)
        fixed = [(label_name(name), value) for name, value in settings.static]
        if NAMESPACE in settings.labels and settings.namespace:
            fixed.append((NAMESPACE, settings.namespace))
        self._fixed = [(name, cut(value, settings.max_value_bytes)) for name, value in fixed]
        names = {_LABEL_NAMES.get(name, name) for name in self._chosen} | {name for name, _ in self._fixed}
        self.reserved = frozenset(names | {PRINCIPAL_LABEL, _CLASH_LABEL})

    def of_record(self, record: PushRecord) -> dict[str, str]:
        """What a push record says of its client, by label."""
        values = {name: getattr(record, field) for name, field in RECORD_LABELS.items()}
        limit = self._settings.max_value_bytes
        found = {name: cut(str(value), limit) for name, value in values.items() if value is not None and value != ""}
        return found | {INSTANCE_LABEL: record.client_instance_id}

    def identity(self, about: About, clashes: int = 0) -> str:
        """The labels of every series of a client.

        Args:
            about: the client.
            clashes: which of those with the same labels it is. The second one has its principal, too, and those after
                it, whose principals are the same as far as they are not cut, a number.
        """
        return label_text(self._identity(about, clashes).items())

    def info(self, about: About) -> str:
        """The labels of the series that tells of a client what its other series do not."""
        labels = self._identity(about, 0)
        for name, value in _renamed(about.record.items()):
            if name not in _LEFT_OUT_OF_INFO:
                labels.setdefault(name, value)
        plain = label_text(labels.items())
        for name, value in normalised(about.resource).items():
            labels.setdefault(name, value)
        text = label_text(labels.items())
        return text if len(text) <= _MAX_INFO_TEXT else plain

    def _identity(self, about: About, clashes: int) -> dict[str, str]:
        names = (*self._chosen, PRINCIPAL_LABEL) if clashes else self._chosen
        labels = dict(_renamed((name, about.record[name]) for name in names if name in about.record))
        for name, value in self._fixed:
            labels.setdefault(name, value)
        return labels | {_CLASH_LABEL: str(clashes)} if clashes > 1 else labels


def _renamed(labels: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    return ((_LABEL_NAMES.get(name, name), value) for name, value in labels)


class Binding(NamedTuple):
    """A client's series in the order in which a shape of push has their numbers."""

    shape: Shape
    deltas: tuple[Series, ...]
    gauges: tuple[Series, ...]
    cumulative: tuple[Series, ...]


class Client:
    """A client and its series.

    Attributes:
        key, saved_key: who it is, and the same as text.
        about: what is told of it.
        identity, info: labels as text. A client whose labels clash with another's has no `info`: there is one for an
            instance id, or queries that join by it would fail.
        clashes: see `ClientLabels.identity`.
        series: by metric and labels of the data point.
        received_at: when its latest push was received [us since the epoch].
        time_unix_nano: the latest time of a point of it; 0 before the first.
        interval_ms: its push interval [ms].
        terminated: that push was its last.
        expires_ms: when it goes if nothing comes [ms, monotonic].
        check_ms: no series of it goes before [ms, monotonic].
        cost: samples on the page, the one with its `info` too.
        layout_changed: series came or went, or what is told of it changed, since it was saved.
        numbers: of its series, see `Series`.
        shown: the same as saved at last; what came since then is not in it, what has gone neither.
        written: what was shown when its lines were written; empty if they all have to be written anew.
        binding: of its latest push that has metrics, if the next one can be read by its shape.
        unlike: how many pushes in a row were read in whole.
        told: what its latest record said that may be in labels.
    """

    __slots__ = (
        "about", "binding", "check_ms", "clashes", "cost", "expires_ms", "identity", "info", "interval_ms", "key",
        "layout_changed", "numbers", "received_at", "saved_key", "series", "shown", "terminated", "time_unix_nano",
        "told", "unlike", "written",
    )  # fmt: skip

    def __init__(self, key: ClientKey, about: About) -> None:
        self.key = key
        self.saved_key = encode_key(key)
        self.about = about
        self.identity = self.info = ""
        self.clashes = 0
        self.series: dict[MetricId, dict[str, Series]] = {}
        self.numbers = nothing()
        self.shown = nothing()
        self.written = nothing()
        self.told: Any = None
        self.binding: Binding | None = None
        self.unlike = 0
        self.received_at = self.time_unix_nano = self.interval_ms = 0
        self.terminated = False
        self.expires_ms = NEVER
        self.check_ms = 0
        self.cost = 0
        self.layout_changed = True

    def every_series(self) -> Iterable[tuple[MetricId, Series]]:
        """All of them, in a fixed order."""
        return ((metric, each) for metric, found in self.series.items() for each in found.values())

    def in_order(self) -> list[tuple[MetricId, Series]]:
        """All of them, in the order of their numbers."""
        return sorted(self.every_series(), key=lambda found: found[1].at)

    def add(self, metric: MetricId, series: Series) -> None:
        """Takes a series that is new, with no numbers yet."""
        self.series.setdefault(metric, {})[series.labels] = series
        series.at = len(self.numbers)
        self.numbers.extend([0.0] * series.size)
        self.layout_changed = True
        self.binding = None

    def drop(self, gone: Collection[tuple[MetricId, Series]]) -> None:
        """Gives series up, and closes the gaps between the numbers of the others."""
        for metric, series in gone:
            of_metric = self.series[metric]
            del of_metric[series.labels]
            if not of_metric:
                del self.series[metric]
        numbers, shown = nothing(), nothing()
        for _, series in self.in_order():
            at = len(numbers)
            numbers += self.numbers[series.at : series.at + series.size]
            shown += self.shown[series.at : series.at + series.size]  # empty for what is newer
            series.at = at
        self.numbers, self.shown, self.written = numbers, shown, nothing()
        self.layout_changed = True
        self.binding = None

    def bind(self, shape: Shape) -> None:
        """Has the next pushes read by a shape, if the client has a series for each of its numbers."""
        deltas, gauges, cumulative = map(self._bound, (shape.deltas, shape.gauges, shape.cumulative))
        if deltas is not None and gauges is not None and cumulative is not None:
            self.binding = Binding(shape, deltas, gauges, cumulative)

    def _bound(self, identities: Iterable[Identity]) -> tuple[Series, ...] | None:
        found = [self.series.get(metric, {}).get(labels) for metric, labels in identities]
        bound = tuple([series for series in found if series is not None])
        return bound if len(bound) == len(found) else None

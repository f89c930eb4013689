"""The metrics on the page: their names, of which no two may clash, their series, and the bounds of all that."""

from collections.abc import Collection, Iterable
from typing import Final

from exporters.prometheus.clients import FOLDED, Client
from exporters.prometheus.names import Kind, MetricId, family_name, help_text, reserved_names
from exporters.prometheus.series import Series
from exporters.prometheus.settings import SeriesSettings

NO_NAME: Final = "name"
"""Why a metric is left out that has no name, or no name that is free."""


class Family:
    """One metric on the page.

    Attributes:
        metric: of which pushes' metric it is made.
        name: without the suffix of a counter.
        sample_name: of the samples of a counter or gauge.
        is_number: it is one of these two.
        unit: part of the name; may be empty.
        description: as a client sent it.
        members: its series, each with its lines of the page; empty until they are written.
        cost: its samples.
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
        """What the page says of it."""
        return help_text(self.metric, self.description)


class Families:
    """Every metric on the page, and what its series cost.

    Args:
        settings: the bounds.
        own_names: metric names that no client's may have.

    Attributes:
        cost: samples of clients on the page.
    """

    def __init__(self, settings: SeriesSettings, own_names: Iterable[str]) -> None:
        self.cost = 0
        self._settings = settings
        self._families: dict[MetricId, Family] = {}
        self._names: dict[str, MetricId | None] = dict.fromkeys(own_names)

    def get(self, metric: MetricId) -> Family | None:
        """The metric, if it has series."""
        return self._families.get(metric)

    def description(self, metric: MetricId) -> str:
        """What a client says of a metric that is there."""
        return self._families[metric].description

    def by_name(self) -> list[Family]:
        """Every metric, sorted."""
        return sorted(self._families.values(), key=lambda family: family.name)

    def has_room(self, cost: int) -> bool:
        """True if the page may have so many samples more."""
        return self.cost + cost <= self._settings.max_series

    def place(self, client: Client, metric: MetricId, series: Series, description: str) -> str | None:
        """Puts a series on the page; or says why there is no place for it: the key of a bound, or `NO_NAME`."""
        family = self._families.get(metric)
        bound = None if client.key == FOLDED else self._bound(client, family, series.cost)
        if bound is not None:
            return bound
        family = family or self.new(metric, description)
        if family is None:
            return NO_NAME
        self.join(client, family, series)
        return None

    def new(self, metric: MetricId, description: str) -> Family | None:
        """A metric under a name of its own; with its kind as suffix where another has the name; None without one.

        A series has to join it at once: a metric goes with its last.
        """
        found = family_name(metric)
        for name in (found.name, f"{found.name}_{metric.kind}") if found else ():
            taken = reserved_names(name, metric.kind)
            if not any(each in self._names for each in taken):
                unit = found.unit if found and name == found.name else ""
                self._names.update(dict.fromkeys(taken, metric))
                self._families[metric] = Family(metric, name, unit, description)
                return self._families[metric]
        return None

    def join(self, client: Client, family: Family, series: Series) -> None:
        """Puts a series on the page, whatever the bounds say."""
        client.add(family.metric, series)
        family.members[series] = ""
        series.family = family
        self._charge(client, family, series.cost)

    def leave(self, client: Client, gone: Collection[tuple[MetricId, Series]]) -> None:
        """Takes series off the page and from their client; a metric goes with its last."""
        client.drop(gone)
        for metric, series in gone:
            family = self._families[metric]
            del family.members[series]
            self._charge(client, family, -series.cost)
            if not family.members:
                del self._families[metric]
                for name in reserved_names(family.name, family.kind):
                    self._names.pop(name, None)

    def _bound(self, client: Client, family: Family | None, cost: int) -> str | None:
        """The key of the bound that has no room for so many samples more; None if all have."""
        if client.cost + cost > self._settings.max_per_client:
            return "series.max.per.client"
        if (family.cost if family else 0) + cost > self._settings.max_per_metric:
            return "series.max.per.metric"
        return None if self.has_room(cost) else "series.max"

    def _charge(self, client: Client, family: Family, cost: int) -> None:
        """Counts samples; those that others were folded into have no bound, since there are three of a metric at most,
        and would keep the room from them that they stand for.
        """
        if client.key != FOLDED:
            client.cost += cost
            family.cost += cost
            self.cost += cost

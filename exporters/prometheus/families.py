"""The metrics on the page: their names, of which no two may clash, their series, and the bounds of all that."""

from collections.abc import Iterable
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
        unit: part of the name; may be empty.
        description: as a client sent it.
        members: its series, and whose they are.
        cost: its samples.
    """

    __slots__ = ("cost", "description", "members", "metric", "name", "unit")

    def __init__(self, metric: MetricId, name: str, unit: str, description: str) -> None:
        self.metric = metric
        self.name = name
        self.unit = unit
        self.description = description
        self.members: dict[Series, Client] = {}
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
        cost: samples on the page, as far as they were charged here.
    """

    def __init__(self, settings: SeriesSettings, own_names: Iterable[str]) -> None:
        self.cost = 0
        self._settings = settings
        self._families: dict[MetricId, Family] = {}
        self._names: dict[str, MetricId | None] = dict.fromkeys(own_names)

    def get(self, metric: MetricId) -> Family | None:
        """The metric, if it has series."""
        return self._families.get(metric)

    def by_name(self) -> list[Family]:
        """Every metric, sorted."""
        return sorted(self._families.values(), key=lambda family: family.name)

    def has_room(self, cost: int) -> bool:
        """True if the page may have so many samples more."""
        return self.cost + cost <= self._settings.max_series

    def place(self, client: Client, metric: MetricId, series: Series, description: str) -> str | None:
        """Puts a series on the page; or says why there is no place for it: the key of a bound, or `NO_NAME`."""
        family = self._families.get(metric)
        if client.key != FOLDED and client.cost + series.cost > self._settings.max_per_client:
            return "series.max.per.client"
        if (family.cost if family else 0) + series.cost > self._settings.max_per_metric:
            return "series.max.per.metric"
        if not self.has_room(series.cost):
            return "series.max"
        family = family or self._new_family(metric, description)
        if family is None:
            return NO_NAME
        self.join(client, family, series)
        return None

    def join(self, client: Client, family: Family, series: Series) -> None:
        """Puts a series on the page, whatever the bounds."""
        client.series.setdefault(family.metric, {})[series.labels] = series
        client.layout_changed = True
        family.members[series] = client
        client.cost += series.cost
        family.cost += series.cost
        self.cost += series.cost

    def leave(self, client: Client, metric: MetricId, series: Series) -> None:
        """Takes a series off the page and from its client; its metric goes with the last."""
        del client.series[metric][series.labels]
        if not client.series[metric]:
            del client.series[metric]
        client.layout_changed = True
        family = self._families[metric]
        del family.members[series]
        client.cost -= series.cost
        family.cost -= series.cost
        self.cost -= series.cost
        if not family.members:
            del self._families[metric]
            for name in reserved_names(family.name, family.kind):
                self._names.pop(name, None)

    def _new_family(self, metric: MetricId, description: str) -> Family | None:
        """A metric under a name of its own; with its kind as suffix where another has the name; None without one."""
        found = family_name(metric)
        for name in (found.name, f"{found.name}_{metric.kind}") if found else ():
            taken = reserved_names(name, metric.kind)
            if not any(each in self._names for each in taken):
                unit = found.unit if found and name == found.name else ""
                self._names.update(dict.fromkeys(taken, metric))
                self._families[metric] = Family(metric, name, unit, description)
                return self._families[metric]
        return None

"""The metrics on the page: their names, which must not clash, their series, and the bounds of both."""

from collections.abc import Collection, Iterable
from typing import Final

from fleetgauge.exporters.prometheus.names import MetricId, family_name, reserved_names
from fleetgauge.exporters.prometheus.series import FOLDED, Client, Family, Series
from fleetgauge.exporters.prometheus.settings import SeriesSettings

NO_NAME: Final = "name"
"""Cause for leaving out a metric that has no name, or whose name is taken."""


class Families:
    """All metrics on the page, and the number of their samples.

    Args:
        settings: the bounds.
        own_names: metric names that are reserved for the exporter.

    Attributes:
        cost: number of samples of clients on the page.
    """

    def __init__(self, settings: SeriesSettings, own_names: Iterable[str]) -> None:
        self.cost = 0
        self._settings = settings
        self._families: dict[MetricId, Family] = {}
        self._names: dict[str, MetricId | None] = dict.fromkeys(own_names)

    def get(self, metric: MetricId) -> Family | None:
        """The metric; None if it has no series."""
        return self._families.get(metric)

    def description(self, metric: MetricId) -> str:
        """The description of an existing metric."""
        return self._families[metric].description

    def by_name(self) -> list[Family]:
        """All metrics, sorted by name."""
        return sorted(self._families.values(), key=lambda family: family.name)

    def has_room(self, cost: int) -> bool:
        """True if the page has room for `cost` more samples."""
        return self.cost + cost <= self._settings.max_series

    def place(self, client: Client, metric: MetricId, series: Series, description: str) -> str | None:
        """Adds a series to the page; returns why it cannot, the key of a bound or `NO_NAME`, or None."""
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
        """Creates a metric, with its kind as suffix if its name is taken; None if that name is taken, too.

        A series must join it at once: a metric is removed with its last series.
        """
        known = family_name(metric)
        for name in (known.name, f"{known.name}_{metric.kind}") if known else ():
            taken = reserved_names(name, metric.kind)
            if not any(each in self._names for each in taken):
                unit = known.unit if known and name == known.name else ""
                self._names.update(dict.fromkeys(taken, metric))
                self._families[metric] = Family(metric, name, unit, description)
                return self._families[metric]
        return None

    def join(self, client: Client, family: Family, series: Series) -> None:
        """Adds a series to the page, regardless of the bounds."""
        client.add(family.metric, series)
        family.members[series] = ""
        series.family = family
        self._charge(client, family, series.cost)

    def leave(self, client: Client, removed: Collection[tuple[MetricId, Series]]) -> None:
        """Removes series from the page and from their client; a metric is removed with its last series."""
        client.drop(removed)
        for metric, series in removed:
            family = self._families[metric]
            del family.members[series]
            self._charge(client, family, -series.cost)
            if not family.members:
                del self._families[metric]
                for name in reserved_names(family.name, family.kind):
                    self._names.pop(name, None)

    def _bound(self, client: Client, family: Family | None, cost: int) -> str | None:
        """The key of the bound that has no room for `cost` more samples; None if all have room."""
        if client.cost + cost > self._settings.max_per_client:
            return "series.max.per.client"
        if (family.cost if family else 0) + cost > self._settings.max_per_metric:
            return "series.max.per.metric"
        return None if self.has_room(cost) else "series.max"

    def _charge(self, client: Client, family: Family, cost: int) -> None:
        """Counts samples. Series that others were folded into have no bound: there are at most three per metric, and
        they would take the room of those that they stand for.
        """
        if client.key != FOLDED:
            client.cost += cost
            family.cost += cost
            self.cost += cost

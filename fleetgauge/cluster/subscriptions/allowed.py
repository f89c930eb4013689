"""The push intervals that the subscriptions in force give clients, for all that wait for clients (`base.presence`)."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.base.presence import IntervalOf

if TYPE_CHECKING:
    from fleetgauge.telemetry.subscriptions.resources import Subscriptions

Properties = Mapping[str, Mapping[str, str]]
"""Subscriptions by name, in Kafka's form."""


@runtime_checkable
class WaitsForClients(Protocol):
    """Decides by `base.presence` whether clients are still there."""

    def allow_intervals(self, interval_ms: IntervalOf, *, anew: bool) -> None:
        """See `SeenClients.allow_intervals`."""
        ...


class AllowedIntervals:
    """The subscriptions in force, as last known."""

    @cached_property
    def _subscriptions(self) -> "Subscriptions":
        from fleetgauge.telemetry.subscriptions.resources import (
            Subscriptions,  # RE2: only where there are subscriptions
        )

        return Subscriptions()

    def take(self, in_force: Properties, waiting: Iterable[WaitsForClients]) -> None:
        """Replaces the subscriptions, and passes the intervals that they give on."""
        before = self._subscriptions.version
        for name in {*self._subscriptions.names()} - in_force.keys():
            self._subscriptions.update(name, {})
        for name, properties in in_force.items():
            with suppress(InvalidConfigError):  # a pattern that only Java has
                self._subscriptions.update(name, properties)
        for each in waiting:
            each.allow_intervals(self._interval_ms, anew=self._subscriptions.version != before)

    def _interval_ms(self, client: Mapping[str, Any]) -> int:
        from fleetgauge.cluster.subscriptions.clients import attributes_of

        return self._subscriptions.effective_for(attributes_of(client)).push_interval_ms

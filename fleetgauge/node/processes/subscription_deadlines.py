"""Takes back subscriptions that are due, and passes the intervals of those in force on to what waits for clients."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import structlog

from fleetgauge.base.clock import Time
from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.cluster.settings import ClusterSettings
from fleetgauge.cluster.subscriptions.allowed import AllowedIntervals, Properties, WaitsForClients
from fleetgauge.node.processes.beside_delivery import BesideDelivery

if TYPE_CHECKING:
    from fleetgauge.cluster.plan import Store
    from fleetgauge.cluster.subscriptions.resources import Resource

log = structlog.get_logger(__name__)

_EVERY_S: Final = 15.0


class SubscriptionDeadlines(BesideDelivery):
    """Looks every 15 s, after a failure in a minute; several processes may do it at once.

    Args:
        settings: the cluster.
        time: the clocks.
        waiting: gets the intervals that the subscriptions give its clients: the inventory and pages for Prometheus.
    """

    def __init__(self, settings: ClusterSettings, time: Time, waiting: Sequence[WaitsForClients] = ()) -> None:
        super().__init__("subscription-deadlines")
        self._waiting = waiting
        self._allowed = AllowedIntervals()
        self._in_force: Properties | None = None
        self._settings = settings
        self._time = time
        self._taken_back = 0
        self._looked_at: int | None = None

    def status(self) -> dict[str, Any]:
        """Plain values: subscriptions taken back since the start, when the cluster answered last [us since the epoch],
        why it does not, if so, and the subscriptions in force then.
        """
        return {
            "taken_back": self._taken_back,
            "looked_at": self._looked_at,
            "problem": self._problem,
            "in_force": self._in_force,
        }

    def _work(self) -> None:
        from fleetgauge.cluster.subscriptions.cluster import Cluster  # needs kafka-python

        with Cluster(self._settings) as cluster:
            while not self._stopped.is_set():
                self._look(cluster)
                self._stopped.wait(_EVERY_S)

    def _look(self, cluster: "Store[str, Resource]") -> None:
        from fleetgauge.cluster.subscriptions.deadlines import taking_back

        now_us = self._time.microseconds()
        resources = cluster.list()
        due, changes = taking_back(resources, datetime.fromtimestamp(now_us / 1e6, UTC))
        if changes:
            cluster.alter(changes)
        self._in_force = {name: each.properties() for name, each in resources.items() if name not in changes}
        self._allowed.take(self._in_force, self._waiting)
        for each in due:
            self._taken_back += 1
            log.info("subscriptions.taken_back", subscription=each.name, due_at=each.at.isoformat())
        self._problem, self._looked_at = None, now_us

    def _log_failure(self, error: Exception) -> None:
        if not isinstance(error, FleetgaugeError):
            log.exception("subscriptions.deadlines_failed")
        elif str(error) != self._problem:
            log.warning("subscriptions.deadlines_not_kept", error=str(error))

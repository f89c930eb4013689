"""Takes back subscriptions that are due, and tells the inventory the intervals of those in force: in a thread of the
exporter process, whose faults delay no delivery.
"""

import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import structlog

from base.clock import Time
from base.errors import FleetgaugeError, InvalidConfigError
from fleetgauge.admin.topic_inventory import TopicInventory
from fleetgauge.subscriptions.settings import ClusterSettings
from push_log.kafka_topic.seen_clients import SeenClient

if TYPE_CHECKING:
    from fleetgauge.subscriptions.resources import Resource
    from fleetgauge.subscriptions.service import Store

log = structlog.get_logger(__name__)

_EVERY_S: Final = 15.0
_AGAIN_S: Final = 60.0
_JOIN_S: Final = 2.0


class SubscriptionDeadlines:
    """Looks every 15 s, after a failure in a minute; several processes may do it at once.

    Args:
        settings: the cluster.
        time: the clocks.
        inventory: is told the intervals that the subscriptions give its clients.
    """

    def __init__(self, settings: ClusterSettings, time: Time, inventory: TopicInventory | None = None) -> None:
        from telemetry.subscriptions.resources import Subscriptions  # RE2: only where there is a cluster

        self._inventory = inventory
        self._subscriptions = Subscriptions()
        self._settings = settings
        self._time = time
        self._stopped = threading.Event()
        self._problem: str | None = None
        self._taken_back = 0
        self._looked_at: int | None = None
        self._thread = threading.Thread(target=self._keep_looking, name="subscription-deadlines", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def request_stop(self) -> None:
        """Ends the wait for the next look."""
        self._stopped.set()

    def join(self) -> None:
        """Waits a moment for a look under way."""
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def status(self) -> dict[str, Any]:
        """Plain values: subscriptions taken back since the start, when the cluster answered last [us since the epoch],
        and why it does not, if so.
        """
        return {"taken_back": self._taken_back, "looked_at": self._looked_at, "problem": self._problem}

    def _keep_looking(self) -> None:
        while not self._stopped.is_set():
            try:
                from fleetgauge.subscriptions.cluster import Cluster  # needs kafka-python

                with Cluster(self._settings) as cluster:
                    while not self._stopped.is_set():
                        self._look(cluster)
                        self._stopped.wait(_EVERY_S)
            except FleetgaugeError as error:
                self._failed(str(error))
            except Exception as error:  # delivery must go on, whatever a client library raises
                log.exception("subscriptions.deadlines_failed")
                self._problem = f"{type(error).__name__}: {error}"
            self._stopped.wait(_AGAIN_S)

    def _look(self, cluster: "Store") -> None:
        from fleetgauge.subscriptions.deadlines import taking_back

        now_us = self._time.microseconds()
        resources = cluster.list()
        due, changes = taking_back(resources, datetime.fromtimestamp(now_us / 1e6, UTC))
        if changes:
            cluster.alter(changes)
        self._allow([each for each in resources if each.name not in changes])
        for each in due:
            self._taken_back += 1
            log.info("subscriptions.taken_back", subscription=each.name, due_at=each.at.isoformat())
        self._problem, self._looked_at = None, now_us

    def _allow(self, resources: "Sequence[Resource]") -> None:
        if self._inventory is None:
            return
        before = self._subscriptions.version
        for name in {*self._subscriptions.names()} - {each.name for each in resources}:
            self._subscriptions.update(name, {})
        for each in resources:
            with suppress(InvalidConfigError):  # a pattern that only Java has
                self._subscriptions.update(each.name, each.properties())
        self._inventory.allow(self._interval_ms, anew=self._subscriptions.version != before)

    def _interval_ms(self, client: SeenClient) -> int:
        from fleetgauge.subscriptions.clients import client_of

        attributes = client_of(client.row(0)._asdict()).attributes()
        return self._subscriptions.effective_for(attributes).push_interval_ms

    def _failed(self, problem: str) -> None:
        if problem != self._problem:
            log.warning("subscriptions.deadlines_not_kept", error=problem)
        self._problem = problem

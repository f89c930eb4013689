"""The client-metrics resources of a node while it runs: the configuration's, tools' changes, and what is in force.

The state is read and written in a thread, one call at a time: a disk that hangs must not keep clients waiting. Other
workers of the node change the same state; each worker looks for that twice a second.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Final, TypeVar

import structlog

from base.clock import Time
from base.errors import FleetgaugeError, KafkaError
from base.log_limiter import LogLimiter
from fleetgauge.off_loop import OffLoop
from fleetgauge.state_store import StateStore
from telemetry.catalogue.nearest_prefix import nearest_prefix
from telemetry.catalogue.standard_metrics import is_known_prefix
from telemetry.manager import ClientMetricsManager
from telemetry.subscriptions.overrides import ClientMetricsResources, Properties, ToolChanges
from telemetry.subscriptions.prefix_advice import MAX_ADVISED
from telemetry.subscriptions.resources import METRICS_CONFIG, check_subscription

log = structlog.get_logger(__name__)

T = TypeVar("T")

_REVIEW_S: Final = 0.5
_WITHIN_S: Final = 10.0
"""How long one request of a tool may take [s]; beyond it, its connection is closed."""


class ClientMetrics:
    """The resources; has the manager apply what is in force. To be used on one loop only.

    Args:
        manager: gets every change.
        store: what tools changed.
        configured: resources of the configuration.
        max_resources: see `ClientMetricsResources`.
        time: the clocks.

    Raises:
        PushLogError: the state cannot be read.
    """

    def __init__(
        self,
        manager: ClientMetricsManager,
        store: StateStore,
        configured: Properties,
        *,
        max_resources: int,
        time: Time,
    ) -> None:
        self._manager = manager
        self._store = store
        self._time = time
        self._off_loop = OffLoop("reading or changing client metrics", _WITHIN_S)
        self._turn = asyncio.Lock()
        self._review: asyncio.Task[None] | None = None
        self._log = LogLimiter()
        self._resources = ClientMetricsResources(
            configured=configured, changes=_usable(store.read(), configured), max_resources=max_resources
        )
        self._apply(self._resources)
        self._warn_of_overrides()

    def start(self) -> None:
        """Begins to look for changes by other workers."""
        self._review = asyncio.create_task(self._keep_reviewing())

    async def stop(self) -> None:
        """Ends what `start` began."""
        if self._review is not None:
            self._review.cancel()
            with suppress(asyncio.CancelledError):
                await self._review

    def configure(self, configured: Properties, max_resources: int) -> None:
        """Takes over the resources of a configuration that was read again; tools' changes stay over them."""
        self._apply(replace(self._resources, configured=configured, max_resources=max_resources))
        self._warn_of_overrides()

    def effective(self) -> dict[str, dict[str, str]]:
        """The resources in force: their properties by name."""
        return self._resources.effective()

    async def run(self, work: Callable[["Transaction"], T]) -> T:
        """Runs `work` in a thread; what it changes is in force on return.

        Raises:
            FleetgaugeError: it does not end in time; its changes may or may not be made. Also whatever `work` raises.
        """
        async with self._turn:
            transaction = Transaction(self._store, self._resources)
            try:
                result = await self._off_loop.run(lambda: work(transaction))
            finally:
                changes = transaction.changes
                if changes is not None:
                    self._apply(replace(self._resources, changes=changes))
        return result

    def _apply(self, resources: ClientMetricsResources) -> None:
        self._resources = resources
        self._manager.replace_subscriptions(resources.effective())

    async def _keep_reviewing(self) -> None:
        while True:
            await asyncio.sleep(_REVIEW_S)
            try:
                await self.run(lambda transaction: transaction.refresh())
            except FleetgaugeError as error:
                if self._log.admit("state.unreadable", self._time.hi_res_clock_ms()):
                    log.error(
                        "state.unreadable",
                        message="changes of subscriptions by tools at other workers are not seen",
                        error=str(error),
                    )

    def _warn_of_overrides(self) -> None:
        for name, keys in self._resources.overridden().items():
            log.warning(
                "subscription.overridden",
                message="a tool set other values than the configuration file, and they stay in force: "
                "kafka-configs.sh --alter --entity-type client-metrics --entity-name NAME --delete-config KEYS",
                subscription=name,
                keys=keys,
            )


class Transaction:
    """Access to the resources within `ClientMetrics.run`, in its thread.

    Attributes:
        changes: the state as it was read or written last; None if it is as before.
    """

    def __init__(self, store: StateStore, resources: ClientMetricsResources) -> None:
        self._store = store
        self._before = resources
        self.changes: ToolChanges | None = None

    def refresh(self) -> None:
        """Reads the state if another worker has changed it.

        Raises:
            PushLogError: it cannot be read now.
        """
        changes = self._store.read_if_changed()
        if changes is not None:
            self._take(changes)

    def resources(self) -> ClientMetricsResources:
        """Returns the resources as of now, with the changes of all workers.

        Raises:
            PushLogError: the state cannot be read now.
        """
        self.refresh()
        return self._before if self.changes is None else replace(self._before, changes=self.changes)

    def change(self, alter: Callable[[ClientMetricsResources], ClientMetricsResources]) -> ClientMetricsResources:
        """Changes the resources durably; returns them.

        Raises:
            PushLogError: the state cannot be written now; nothing is changed.
            Exception: what `alter` raises; nothing is changed.
        """
        altered: list[ClientMetricsResources] = []

        def changed(changes: ToolChanges) -> ToolChanges:
            altered.append(alter(replace(self._before, changes=changes)))
            return altered[0].changes

        self._take(self._store.change(changed))
        return altered[0]

    def _take(self, changes: ToolChanges) -> None:
        self.changes = _usable(changes, self._before.configured)
        _prepare_advice(replace(self._before, changes=self.changes).effective())


def _usable(changes: ToolChanges, configured: Properties) -> ToolChanges:
    """Leaves out resources that this release does not accept: a later one may have written them."""
    values = {}
    for name, each in changes.values.items():
        try:
            check_subscription(name, {**configured.get(name, {}), **each})
        except KafkaError as error:
            log.error("state.value_refused", subscription=name, error=str(error), consequence="it is not applied")
        else:
            values[name] = each
    return replace(changes, values=values)


def _prepare_advice(effective: Properties) -> None:
    """Searches for the nearest known prefixes here rather than on the loop, where the manager asks for them."""
    lists = (values.get(METRICS_CONFIG, "").split(",") for values in effective.values())
    prefixes = (part.strip() for parts in lists for part in parts)
    for prefix in islice((each for each in prefixes if each and not is_known_prefix(each)), MAX_ADVISED):
        nearest_prefix(prefix)

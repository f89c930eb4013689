"""All quota managers of a broker, created from one configuration."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fleetgauge.base.arguments import check_types
from fleetgauge.base.clock import Time
from fleetgauge.quotas.callback import ClientQuotaCallback, Cluster, load_callback
from fleetgauge.quotas.client_quota import ClientQuotaManager
from fleetgauge.quotas.client_request_quota import ClientRequestQuotaManager
from fleetgauge.quotas.config import QuotaConfig
from fleetgauge.quotas.controller_mutation import ControllerMutationQuotaManager
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.quotas.quota_type import QuotaType
from fleetgauge.quotas.replication import ReplicationQuotaManager
from fleetgauge.quotas.throttled_channel import ThrottledChannelReaper


class ReaperDriver(Protocol):
    """Calls a reaper when a channel is due; `quotas.drivers` has one for threads and one for event loops."""

    def start(self) -> None:
        """Reaps from now on."""

    def shutdown(self) -> None:
        """Unmutes every channel that is still held, and ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaManagers:
    """Kafka's `QuotaFactory.QuotaManagers`. Created by `instantiate`.

    Attributes:
        fetch: bytes fetched.
        produce: bytes produced.
        request: time on threads.
        controller_mutation: partitions created and deleted.
        leader: bytes that leaders send to throttled replicas.
        follower: bytes that throttled replicas fetch.
        alter_log_dirs: bytes that are moved between log directories.
        time: the clocks of all of them.
        client_quota_callback: the callback shared by all four, None for the default ones.
    """

    fetch: ClientQuotaManager
    produce: ClientQuotaManager
    request: ClientRequestQuotaManager
    controller_mutation: ControllerMutationQuotaManager
    leader: ReplicationQuotaManager
    follower: ReplicationQuotaManager
    alter_log_dirs: ReplicationQuotaManager
    time: Time
    client_quota_callback: ClientQuotaCallback | None = None
    _reapers: list[ReaperDriver] = field(default_factory=list, init=False, repr=False, compare=False)

    @classmethod
    def instantiate(
        cls,
        config: QuotaConfig,
        metrics: Metrics,
        time: Time,
        callback_configs: Mapping[str, object] | None = None,
    ) -> "QuotaManagers":
        """Creates all managers (Kafka's `QuotaFactory.instantiate`).

        Args:
            config: sampling and callback class.
            metrics: registry of their sensors and metrics.
            time: the monotonic clock for calls without `now_ms`.
            callback_configs: passed to the callback's `configure`.

        Raises:
            InvalidConfigError: the callback cannot be used.
        """
        check_types(config=(config, QuotaConfig))
        name = config.client_quota_callback_class
        callback = None if name is None else load_callback(name, callback_configs or {})
        return cls(
            fetch=ClientQuotaManager(config.client, metrics, QuotaType.FETCH, time, callback),
            produce=ClientQuotaManager(config.client, metrics, QuotaType.PRODUCE, time, callback),
            request=ClientRequestQuotaManager(config.client, metrics, time, callback),
            controller_mutation=ControllerMutationQuotaManager(config.controller_mutation, metrics, time, callback),
            leader=ReplicationQuotaManager(config.replication, metrics, QuotaType.LEADER_REPLICATION, time),
            follower=ReplicationQuotaManager(config.replication, metrics, QuotaType.FOLLOWER_REPLICATION, time),
            alter_log_dirs=ReplicationQuotaManager(
                config.alter_log_dirs_replication, metrics, QuotaType.ALTER_LOG_DIRS_REPLICATION, time
            ),
            time=time,
            client_quota_callback=callback,
        )

    @property
    def client_quota_managers(self) -> Sequence[ClientQuotaManager]:
        """The four managers that throttle channels."""
        return (self.fetch, self.produce, self.request, self.controller_mutation)

    def client_quota_manager(self, quota_type: QuotaType) -> ClientQuotaManager:
        """Returns the manager of that type.

        Raises:
            ValueError: it is not a quota on clients.
        """
        check_types(quota_type=(quota_type, QuotaType))
        for manager in self.client_quota_managers:
            if manager.quota_type is quota_type:
                return manager
        raise ValueError(f"Not a client quota type: {quota_type.name}")

    def update_cluster_metadata(self, cluster: Cluster) -> bool:
        """Passes partitions and leaders to the callback, and updates all limits if it returns True; returns that."""
        callback = self.client_quota_callback
        if callback is None or not callback.update_cluster_metadata(cluster):
            return False
        for manager in self.client_quota_managers:
            manager.update_quota_metric_configs()
        return True

    def update_replication_rates(self, config: QuotaConfig) -> None:
        """Puts the three rates of `config` that are dynamic in force; what was recorded is kept."""
        check_types(config=(config, QuotaConfig))
        for manager, rate in (
            (self.leader, config.leader_replication_throttled_rate),
            (self.follower, config.follower_replication_throttled_rate),
            (self.alter_log_dirs, config.replica_alter_log_dirs_io_max_bytes_per_second),
        ):
            manager.update_quota(Quota.upper_bound(rate))

    def start_reapers(self, driver: Callable[[ThrottledChannelReaper, Time], ReaperDriver]) -> None:
        """Starts the reapers of all four managers, which unmute channels when their time has come.

        Args:
            driver: `quotas.drivers` has one for threads, `ReaperThread`, and one for an event loop, `AsyncioReaper`.

        Raises:
            ValueError: they are started already.
        """
        if self._reapers:
            raise ValueError("the reapers are started already")
        self._reapers.extend(driver(manager.reaper, self.time) for manager in self.client_quota_managers)
        for reaper in self._reapers:
            reaper.start()

    def stop_reapers(self) -> None:
        """Unmutes every channel that is still held, and stops what `start_reapers` started."""
        for reaper in self._reapers:
            reaper.shutdown()
        self._reapers.clear()

    def shutdown(self) -> None:
        """`stop_reapers`; channels that are throttled from now on are unmuted at once. Then closes the callback."""
        self.stop_reapers()
        for manager in self.client_quota_managers:
            manager.shutdown()
        if self.client_quota_callback is not None:
            self.client_quota_callback.close()

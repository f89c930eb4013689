"""Limits the rate at which a backlog is delivered, so that the drain after an outage does not overload the destination.

It works as Kafka's replication throttle (KIP-73): batches that are in step with the log are never delayed, a backlog
waits while the rate is exceeded.
"""

import math
from typing import Final

from fleetgauge.base.clock import Time
from fleetgauge.exporters.exporter import BatchSettings
from fleetgauge.push_log.log import Batch
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.quotas.replication import ReplicationQuotaManager, ReplicationQuotaManagerConfig

IN_STEP_MS: Final = 10_000
"""Maximum age of the first push of a batch, beyond its linger time, at which the batch is not a backlog [ms]."""
_CHECK_AGAIN_MS: Final = 100


class DrainThrottle:
    """The drain rate of one exporter; for one thread.

    Args:
        bytes_per_second: decompressed metrics of a backlog (key `drain.rate.bytes`) [B/s].
        batch: its batch size. The rate is an average over windows that have room for a whole batch: with batches of
            64 MiB and 1 MiB/s these are windows of 64 s.
        time: the clocks.
    """

    def __init__(self, bytes_per_second: int, batch: BatchSettings, time: Time) -> None:
        self._time = time
        self._in_step_ms = batch.linger_ms + IN_STEP_MS
        sampling = ReplicationQuotaManagerConfig(
            quota_window_size_seconds=max(1, math.ceil(batch.max_bytes / bytes_per_second))
        )
        self._manager = ReplicationQuotaManager(sampling, Metrics(time=time), "ExporterDrain", time)
        self._manager.update_quota(Quota.upper_bound(bytes_per_second))

    def wait_ms(self, batch: Batch) -> int:
        """0 if the batch may be delivered now, which also records it; otherwise when to check again [ms]."""
        received_at_us = min(record.received_at for record in batch.records)
        if self._time.milliseconds() - received_at_us // 1_000 <= self._in_step_ms:
            return 0
        if self._manager.is_quota_exceeded():
            return _CHECK_AGAIN_MS
        self._manager.record(batch.size_bytes)
        return 0

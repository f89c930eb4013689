"""Holds the delivery of a backlog to a rate, so that what follows an outage does not flood who has just come back.

Asked as Kafka asks its replication throttle: what is in step with the log is never held back, what lags behind waits
while the rate is exceeded (chapter 19, "Replication throttles"; KIP-73).
"""

import math
from typing import Final

from base.clock import Time
from exporters.delivery.outcome import BatchSettings
from push_log.log import Batch
from quotas.metrics import Metrics
from quotas.quota import Quota
from quotas.replication import ReplicationQuotaManager, ReplicationQuotaManagerConfig

IN_STEP_MS: Final = 10_000
"""A batch whose first push came no longer ago than this, beside what it may linger, is no backlog [ms]."""
_ASK_AGAIN_MS: Final = 100


class DrainRate:
    """The rate of one exporter; for one thread.

    Args:
        bytes_per_second: decompressed metrics of pushes of a backlog (key `drain.rate.bytes`) [B/s].
        batch: how large its batches are. The rate is kept on the average over windows in which a whole batch has room:
            with batches of 64 MiB and 1 MiB/s these are of 64 s.
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
        """0 if the batch may go now and counts from now on, else after how long to ask again [ms]."""
        received_at_us = min(record.received_at for record in batch.records)
        if self._time.milliseconds() - received_at_us // 1_000 <= self._in_step_ms:
            return 0
        if self._manager.is_quota_exceeded():
            return _ASK_AGAIN_MS
        self._manager.record(batch.size_bytes)
        return 0

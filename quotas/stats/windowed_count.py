"""The count over the windows."""

from quotas.stats.sampled_stat import Sample
from quotas.stats.windowed_sum import WindowedSum


class WindowedCount(WindowedSum):
    """Number of records in the monitored windows, whatever their values (Kafka's `WindowedCount`)."""

    __slots__ = ()

    def _update(self, sample: Sample, value: float) -> None:
        sample.value += 1.0

"""The sum over the windows."""

from collections.abc import Sequence

from quotas.stats.sampled_stat import Sample, SampledStat


class WindowedSum(SampledStat):
    """Sum of the values recorded in the monitored windows (Kafka's `WindowedSum`). Recording `-v` takes `v` back."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(0.0)

    def _update(self, sample: Sample, value: float) -> None:
        sample.value += value

    def _combine(self, samples: Sequence[Sample]) -> float:
        total = 0.0
        for sample in samples:
            total += sample.value
        return total

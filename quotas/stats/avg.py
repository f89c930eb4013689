"""The average over the windows."""

import math
from collections.abc import Sequence

from quotas.stats.sampled_stat import Sample, SampledStat


class Avg(SampledStat):
    """Average of the values recorded in the monitored windows, NaN without any (Kafka's `Avg`)."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(0.0)

    def _update(self, sample: Sample, value: float) -> None:
        sample.value += value

    def _combine(self, samples: Sequence[Sample]) -> float:
        total = 0.0
        count = 0
        for sample in samples:
            total += sample.value
            count += sample.event_count
        return total / count if count else math.nan

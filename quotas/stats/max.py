"""The greatest value over the windows."""

import math
from collections.abc import Sequence

from quotas.stats.sampled_stat import Sample, SampledStat


class Max(SampledStat):
    """Greatest value recorded in the monitored windows, NaN without any (Kafka's `Max`)."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(-math.inf)

    def _update(self, sample: Sample, value: float) -> None:
        if value > sample.value:
            sample.value = value

    def _combine(self, samples: Sequence[Sample]) -> float:
        return max((sample.value for sample in samples if sample.event_count), default=math.nan)

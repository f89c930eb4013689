"""Kafka's statistics: what a sensor's recorded values are turned into."""

from quotas.stats.avg import Avg
from quotas.stats.cumulative import CumulativeCount, CumulativeSum, Value
from quotas.stats.max import Max
from quotas.stats.meter import Meter
from quotas.stats.min import Min
from quotas.stats.rate import Rate, SimpleRate
from quotas.stats.sampled_stat import SampledStat
from quotas.stats.stat import CompoundStat, Gauge, Measurable, MeasurableStat, NamedMeasurable, Stat
from quotas.stats.token_bucket import TokenBucket
from quotas.stats.windowed_count import WindowedCount
from quotas.stats.windowed_sum import WindowedSum

__all__ = [
    "Avg",
    "CompoundStat",
    "CumulativeCount",
    "CumulativeSum",
    "Gauge",
    "Max",
    "Measurable",
    "MeasurableStat",
    "Meter",
    "Min",
    "NamedMeasurable",
    "Rate",
    "SampledStat",
    "SimpleRate",
    "Stat",
    "TokenBucket",
    "Value",
    "WindowedCount",
    "WindowedSum",
]

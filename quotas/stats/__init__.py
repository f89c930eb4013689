"""Kafka's statistics: what a sensor's recorded values are turned into."""

from quotas.stats.cumulative import CumulativeCount, CumulativeSum, Value
from quotas.stats.meter import Meter
from quotas.stats.rate import Rate, SimpleRate
from quotas.stats.sampled_stat import Avg, Max, Min, SampledStat
from quotas.stats.stat import CompoundStat, Gauge, Measurable, MeasurableStat, NamedMeasurable, Stat, TimeUnit
from quotas.stats.token_bucket import TokenBucket
from quotas.stats.windowed_sum import WindowedCount, WindowedSum

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
    "TimeUnit",
    "TokenBucket",
    "Value",
    "WindowedCount",
    "WindowedSum",
]

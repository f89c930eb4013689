"""Sensors: record values into statistics and check their quotas."""

import threading
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias, overload

from fleetgauge.base.arguments import check_types
from fleetgauge.base.clock import Time
from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.quotas.metrics.kafka_metric import KafkaMetric
from fleetgauge.quotas.metrics.metric_config import MetricConfig
from fleetgauge.quotas.metrics.metric_name import MetricName
from fleetgauge.quotas.metrics.stats.stat import CompoundStat, Gauge, Measurable, MeasurableStat
from fleetgauge.quotas.metrics.stats.token_bucket import TokenBucket

_Record: TypeAlias = Callable[[MetricConfig, float, int], None]
_Measure: TypeAlias = Callable[[MetricConfig, int], float]
_RecordAndMeasure: TypeAlias = Callable[[MetricConfig, float, int], float]
_Step: TypeAlias = tuple[KafkaMetric, _Record, _RecordAndMeasure, bool]


class QuotaViolationError(FleetgaugeError):
    """A metric is out of its bound after a record. The value stays recorded in the sensor that has the metric.

    Attributes:
        metric: the metric out of its bound.
        value: the measured value; for a token bucket the tokens left, below zero.
        bound: its quota's bound.
    """

    def __init__(self, metric: KafkaMetric, value: float, bound: float) -> None:
        super().__init__(metric, value, bound)
        self.metric = metric
        self.value = value
        self.bound = bound

    def __str__(self) -> str:
        return f"'{self.metric.metric_name}' violated quota. Actual: {self.value:f}, Threshold: {self.bound:f}"


class Registry(Protocol):
    """The methods of `Metrics` that a sensor calls."""

    def register_metric(self, metric: KafkaMetric) -> KafkaMetric | None:
        """See `Metrics.register_metric`."""

    def remove_metric(self, metric_name: MetricName) -> KafkaMetric | None:
        """See `Metrics.remove_metric`."""


class _FixedConfig:
    """Config of a compound statistic, with the attribute of a metric."""

    __slots__ = ("_config",)

    def __init__(self, config: MetricConfig) -> None:
        self._config = config


class Sensor:
    """Kafka's `Sensor`: records every value into all its statistics and into its parents.

    Created by `Metrics.sensor`. Safe for threads: `lock` makes a record and its check one step.

    Attributes:
        name: unique within its `Metrics`.
        parents: sensors that record every value of this one too that does not violate its quota.
        lock: re-entrant, held while recording, checking and measuring; hold it to make `check_quotas` and `record`
            one step (KIP-599, strict quotas). A sensor's lock is taken before its parents', never after.
        structure_lock: held while metrics are added or the sensor is removed; acquired before the registry's lock,
            never after.
    """

    __slots__ = (
        "_checked",
        "_config",
        "_expiration_time_ms",
        "_last_record_time_ms",
        "_metrics",
        "_recorders",
        "_registry",
        "_steps",
        "_time",
        "lock",
        "name",
        "parents",
        "structure_lock",
    )

    def __init__(
        self,
        registry: Registry,
        name: str,
        parents: Sequence["Sensor"],
        config: MetricConfig,
        time: Time,
        inactive_sensor_expiration_time_seconds: int,
    ) -> None:
        for parent in parents:
            check_types(parent=(parent, Sensor))
        self.name: Final = name
        self.parents: Final = tuple(parents)
        self.lock: Final = threading.RLock()
        # Separate from `lock`: a reporter that is notified of a new metric may wait for a reader of metrics.
        self.structure_lock: Final = threading.RLock()
        self._registry = registry
        self._config = config
        self._time = time
        self._expiration_time_ms = inactive_sensor_expiration_time_seconds * 1_000
        self._last_record_time_ms = time.hi_res_clock_ms()
        # Replaced as a whole, never changed in place: recording reads it without the structure's lock.
        self._recorders: tuple[tuple[_Record, KafkaMetric | _FixedConfig], ...] = ()
        self._checked: tuple[tuple[KafkaMetric, _Measure, bool], ...] = ()
        # Recording and checking in one pass, for a sensor without parents and compound statistics; None for others.
        self._steps: tuple[_Step, ...] | None = None if self.parents else ()
        self._metrics: dict[MetricName, KafkaMetric] = {}
        self._check_forest(set())

    def record(self, value: float = 1.0, time_ms: int | None = None, check_quotas: bool = True) -> None:
        """Records `value` in every statistic here and checks the quotas; then the same in each parent, as in Kafka.

        Args:
            value: the negative of an earlier value, recorded at the same time, takes that one back.
            time_ms: monotonic time [ms], by default now. Kafka passes wall time; here that is an error that cannot be
                detected: see the docstring of `quotas`.
            check_quotas: False to record without a check.

        Raises:
            QuotaViolationError: a metric here or in a parent is out of its bound now. The value is recorded in the
                sensors up to that one, and in none after it. To take it back, record its negative here alone.
        """
        at_ms = self._time.hi_res_clock_ms() if time_ms is None else time_ms
        steps = self._steps
        if steps is None:
            self._record_in_turn(value, at_ms, check_quotas)
            return
        violation: QuotaViolationError | None = None
        lock = self.lock
        lock.acquire()  # `with` takes twice as long, and this runs for every request
        try:
            self._last_record_time_ms = at_ms
            if not check_quotas:
                for metric, record, _, _ in steps:
                    record(metric._config, value, at_ms)
                return
            for metric, record, record_and_measure, is_bucket in steps:
                config = metric._config
                quota = config.quota
                if quota is None or violation is not None:  # measuring discards samples: not after the first
                    record(config, value, at_ms)
                    continue
                # Statistics are independent, so that each can be measured right after its record.
                measured = record_and_measure(config, value, at_ms)
                if is_bucket:
                    kept = measured >= 0  # a bucket is checked for tokens left, not for its bound (KIP-599)
                else:
                    kept = measured <= quota.bound if quota.upper else measured >= quota.bound
                if not kept:
                    violation = QuotaViolationError(metric, measured, quota.bound)
        finally:
            lock.release()
        if violation is not None:
            raise violation

    def check_and_record(self, value: float, time_ms: int) -> None:
        """Records `value` unless a quota of this sensor is already violated; atomic (KIP-599).

        Args:
            value: the value.
            time_ms: monotonic time [ms].

        Raises:
            QuotaViolationError: see `check_quotas`; nothing is recorded.
        """
        lock = self.lock
        lock.acquire()
        try:
            self._check(time_ms)
            self._record(value, time_ms)
        finally:
            lock.release()
        for parent in self.parents:
            parent.record(value, time_ms, False)

    def check_quotas(self, time_ms: int | None = None) -> None:
        """Checks this sensor's own metrics at `time_ms` [ms, monotonic, by default now], without a record.

        Raises:
            QuotaViolationError: one of them is out of its bound; a token bucket if it is below zero.
        """
        at_ms = self._time.hi_res_clock_ms() if time_ms is None else time_ms
        with self.lock:
            self._check(at_ms)

    @overload
    def add(self, metric_name: MetricName, stat: MeasurableStat, config: MetricConfig | None = None) -> bool: ...

    @overload
    def add(self, metric_name: CompoundStat, *, config: MetricConfig | None = None) -> bool: ...

    def add(
        self,
        metric_name: MetricName | CompoundStat,
        stat: MeasurableStat | None = None,
        config: MetricConfig | None = None,
    ) -> bool:
        """Registers a statistic: `add(name, stat)`, or `add(compound)` for one with several measures.

        Args:
            metric_name: the metric's name, or a compound statistic, which has its own names.
            stat: records every value.
            config: instead of the sensor's own.

        Returns:
            False if the sensor has expired and nothing was added. Adding a name that this sensor already has
            changes nothing and is True.

        Raises:
            ValueError: the name is registered elsewhere. Nothing is added then.
        """
        with self.structure_lock:
            if self.has_expired(self._time.hi_res_clock_ms()):
                return False
            chosen = self._config if config is None else config
            check_types(config=(chosen, MetricConfig))
            if not isinstance(metric_name, MetricName):
                check_types(metric_name=(metric_name, (MetricName, CompoundStat)))
                self._add_compound(metric_name, chosen)
            elif metric_name not in self._metrics:
                if stat is None:
                    raise TypeError("a metric's name needs a statistic beside it")
                check_types(stat=(stat, MeasurableStat))
                metric = self._register(metric_name, stat, chosen)
                self._add_step(metric, stat)
                self._recorders = (*self._recorders, (stat.record, metric))
            return True

    def add_gauge(self, metric_name: MetricName, gauge: Gauge) -> bool:
        """Registers a function that is computed when it is read, under the sensor's lock; nothing is recorded or
        checked.

        It is removed with the sensor. Returns and raises as `add` does.
        """
        with self.structure_lock:
            if self.has_expired(self._time.hi_res_clock_ms()):
                return False
            if metric_name not in self._metrics:
                self._register(metric_name, gauge, self._config)
            return True

    def has_expired(self, now_ms: int) -> bool:
        """True if nothing was recorded for longer than the sensor's expiration time, at `now_ms` [ms, monotonic]."""
        return now_ms - self._last_record_time_ms > self._expiration_time_ms

    @property
    def has_metrics(self) -> bool:
        """True if a statistic was added."""
        return bool(self._metrics)

    @property
    def metrics(self) -> tuple[KafkaMetric, ...]:
        """The sensor's metrics in the order of their addition."""
        return tuple(self._metrics.values())

    def _record(self, value: float, time_ms: int) -> None:
        self._last_record_time_ms = time_ms
        for record, under in self._recorders:
            record(under._config, value, time_ms)

    def _record_in_turn(self, value: float, time_ms: int, check_quotas: bool) -> None:
        with self.lock:
            self._record(value, time_ms)
            if check_quotas:
                self._check(time_ms)
        for parent in self.parents:
            parent.record(value, time_ms, check_quotas)

    def _check(self, time_ms: int) -> None:
        for metric, measure, is_bucket in self._checked:
            config = metric._config
            quota = config.quota
            if quota is None:
                continue
            value = measure(config, time_ms)
            # A bucket's bound is its refill rate: it is checked for tokens left (KIP-599).
            if value < 0 if is_bucket else not quota.acceptable(value):
                raise QuotaViolationError(metric, value, quota.bound)

    def _add_compound(self, compound: CompoundStat, config: MetricConfig) -> None:
        before = self._metrics
        try:
            for name, measurable in compound.stats():
                self._register(name, measurable, config)
        except ValueError:
            for name in self._metrics.keys() - before.keys():
                self._registry.remove_metric(name)
            self._set_metrics(before)
            raise
        self._steps = None
        self._recorders = (*self._recorders, (compound.record, _FixedConfig(config)))

    def _add_step(self, metric: KafkaMetric, stat: MeasurableStat) -> None:
        steps = self._steps
        if steps is None:
            return
        if any(known.provider is stat for known, *_ in steps):
            self._steps = None  # recorded twice: both records come before either measurement
            return
        in_one = _in_one(stat)
        self._steps = (*steps, (metric, stat.record, in_one, isinstance(stat, TokenBucket)))

    def _register(self, name: MetricName, provider: Measurable | Gauge, config: MetricConfig) -> KafkaMetric:
        metric = KafkaMetric(self.lock, name, provider, config, self._time)
        if self._registry.register_metric(metric) is not None:
            raise ValueError(f"A metric named '{name}' already exists, can't register another one.")
        self._set_metrics({**self._metrics, name: metric})
        return metric

    def _set_metrics(self, metrics: dict[MetricName, KafkaMetric]) -> None:
        self._metrics = metrics
        self._checked = tuple(
            (metric, metric.measure, isinstance(metric.provider, TokenBucket))
            for metric in metrics.values()
            if metric.measure is not None
        )

    def _check_forest(self, seen: set["Sensor"]) -> None:
        """Refuses circles, and parents that share an ancestor, which would record every value twice."""
        if self in seen:
            raise ValueError(f"Circular dependency in sensors: {self.name} is its own parent.")
        seen.add(self)
        for parent in self.parents:
            parent._check_forest(seen)


def _in_one(stat: MeasurableStat) -> _RecordAndMeasure:
    """Returns the statistic's `record_and_measure`, unless a subclass overrides a method that it replaces."""
    for kind in type(stat).__mro__:
        own = kind.__dict__
        if "record_and_measure" in own:
            return stat.record_and_measure  # type: ignore[attr-defined, no-any-return]
        if not own.keys().isdisjoint(("record", "measure", "_update", "_combine")):
            break

    def record_and_measure(config: MetricConfig, value: float, time_ms: int) -> float:
        stat.record(config, value, time_ms)
        return stat.measure(config, time_ms)

    return record_and_measure

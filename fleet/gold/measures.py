"""Gold: several metrics of a client side by side, a row a client and window; a column is declared, not programmed.

First one row a push, where each metric has one value, then one row a window.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from fleet.gold.clients import identity_columns, latest_identity
from fleet.gold.metrics import metrics_by_name
from fleet.gold.recorded import recorded
from fleet.gold.windows import with_window
from fleet.schemas import INSTANCE, POINTS, conform
from telemetry.catalogue.standard_metrics import KAFKA_PREFIX

_DIALECTS: Final = ("java", "librdkafka", "franz-go")
_KINDS: Final = ("consumer", "share-consumer")
_OF_SHARE_CONSUMERS: Final = f"{KAFKA_PREFIX}consumer.share."


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One column of a table by client and window.

    Attributes:
        column: its name.
        metrics: telemetry names of which a client has one, as consumers and share consumers name theirs differently.
        over_pushes: how the values of several pushes become one: `growth` sums deltas, `last` is the latest push's.
        by_partition: None reads the points without topic and partition; `sum` and `max` read those of partitions, and
            make one value a push of them.
        zero_may_be_nothing: a 0 is no measurement, unless Java says it.
    """

    column: str
    metrics: tuple[str, ...]
    over_pushes: Literal["avg", "max", "last", "growth"]
    by_partition: Literal["sum", "max"] | None = None
    zero_may_be_nothing: bool = False


def by_window(points: DataFrame, measures: Sequence[Measure], window_s: int) -> DataFrame:
    """POINTS -> one row a client instance and window that has any of the measures' metrics.

    With `date`, `window_start`, `window_s`, the instance and what its latest push said of it, `pushes` (that had any of
    the metrics), a column a measure, `gap`, `covers_gap` and `unknown` as in REBALANCES.
    """
    names = sorted({name for measure in measures for name in measure.metrics})
    # The second copy of a dotted topic's partition would count its records twice.
    ours = conform(points, POINTS).where(F.col("metric_name").isin(names) & ~F.col("twin"))
    of_push = with_window(ours, window_s).groupBy(*INSTANCE, "window_start", "push_id")
    pushes = of_push.agg(
        latest_identity(),
        F.max("group_id").alias("group_id"),
        F.max("group_member_id").alias("group_member_id"),
        F.bool_or(F.col("metric_name").startswith(_OF_SHARE_CONSUMERS)).alias("shares"),
        F.bool_or(_is_growth(measures) & (F.col("gap") | F.col("before_subscription"))).alias("gap"),
        F.bool_or(_is_growth(measures) & F.col("covers_gap")).alias("covers_gap"),
        *(_of_push(measure).alias(measure.column) for measure in measures),
    ).withColumn("order", F.struct("identity.received_at", "push_id"))
    windows = pushes.groupBy(*INSTANCE, "window_start").agg(
        F.max("identity").alias("identity"),
        _last("group_id").alias("group_id"),
        _last("group_member_id").alias("group_member_id"),
        F.bool_or("shares").alias("shares"),
        F.count(F.lit(1)).alias("pushes"),
        *(F.coalesce(F.bool_or(name), F.lit(False)).alias(name) for name in ("gap", "covers_gap")),
        *(_of_window(measure).alias(measure.column) for measure in measures),
    )
    return windows.select(
        "*", *identity_columns(), F.lit(window_s).alias("window_s"), F.to_date("window_start").alias("date")
    ).withColumn("unknown", _unknown(measures))


def _is_growth(measures: Sequence[Measure]) -> Column:
    names = {name for measure in measures if measure.over_pushes == "growth" for name in measure.metrics}
    return F.col("metric_name").isin(sorted(names)) & F.col("topic").isNull()


def _of_push(measure: Measure) -> Column:
    """A push has one point of a metric, or one a partition; a delta that reaches back too far belongs to no window."""
    value = F.col("value")
    if measure.over_pushes == "growth":
        value = F.when(~F.col("before_subscription"), F.col("delta"))
    if measure.zero_may_be_nothing:
        value = recorded(value)
    where = F.col("partition").isNotNull() if measure.by_partition else F.col("topic").isNull()
    chosen = F.when(F.col("metric_name").isin(list(measure.metrics)) & where, value)
    return F.sum(chosen) if measure.by_partition == "sum" else F.max(chosen)


def _of_window(measure: Measure) -> Column:
    match measure.over_pushes:
        case "avg":
            return F.avg(measure.column)
        case "max":
            return F.max(measure.column)
        case "growth":
            return F.sum(measure.column)
    return _last(measure.column)


def _last(column: str) -> Column:
    return F.max_by(column, F.when(F.col(column).isNotNull(), F.col("order")))


def _unknown(measures: Sequence[Measure]) -> Column:
    """The columns that the client's library never fills; of a library that is not known, those that are null."""
    pairs = []
    for dialect, kind in product(_DIALECTS, _KINDS):
        lacks = F.array(*(F.lit(measure.column) for measure in measures if not _fills(dialect, kind, measure)))
        pairs += [F.lit(f"{dialect} {kind}"), lacks.cast("array<string>")]
    of_kind = F.when(F.col("shares"), _KINDS[1]).otherwise(_KINDS[0])
    nulls = F.array_compact(F.array(*(F.when(F.col(m.column).isNull(), m.column) for m in measures)))
    return F.when(F.col("dialect").isNull(), nulls).otherwise(
        F.create_map(*pairs)[F.concat_ws(" ", F.col("dialect"), of_kind)]
    )


def _fills(dialect: str, kind: str, measure: Measure) -> bool:
    known = [metrics_by_name()[name] for name in measure.metrics]
    return any(dialect in metric.clients and kind in metric.roles for metric in known)

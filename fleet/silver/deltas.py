"""Silver: what sums grew by, whatever their temporality, and where that is not the whole truth.

Points of a series are compared in the order of their receipt (`received_at`, `push_id`, `point_index`): a client's
pushes come one after the other, while its clock may be set back or forth. So what comes out does not depend on where
one run ends and the next begins, as long as pushes are read in that order; what an earlier run has overtaken is `late`.

- `delta`: a delta as sent; of a cumulative sum, the growth since the point before. Null for a `late` point.
- `reset`: a cumulative sum began anew, so `delta` is what it grew by since, and what came before that is not known.
- `gap`: what the series grew by between the point before and this one's beginning is not known: a push is missing.
- `before_subscription`: the delta reaches back before the time that its client was asked about: a first delta (Java
  counts from the client's start), or one that covers again what was counted already.
- `late`: a later point was there before it.

Gauges have none of them, and neither has a sum of unknown temporality.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from fleet.schemas import INSTANCE, POINTS, SENT_POINTS, SERIES, conform
from fleet.silver.intervals import LONGEST_INTERVALS, interval_ms

_SERIES: Final = (*INSTANCE, "series_key")
_ORDER: Final = ("received_at", "push_id", "point_index")
_REMEMBERED: Final = (*_ORDER, "start_time_unix_nano", "time_unix_nano", "amount", "amount_sum")
_LABELS: Final = ("metric_name", "metric_type", "temporality", "attributes", "occurrence")
OF_SERIES: Final = (*INSTANCE, *_LABELS, *_ORDER, "start_time_unix_nano", "time_unix_nano", "value", "count", "sum")
"""The columns of SENT_POINTS that `latest` looks at."""

_SLACK_NANO: Final = 100_000_000
"""A delta begins where the one before ended, to the millisecond in all clients known; a clock may step a little."""


def mark(points: DataFrame, previous: DataFrame | None = None) -> DataFrame:
    """SENT_POINTS and the SERIES of earlier runs -> POINTS, all points of an instance in one partition.

    Args:
        points: of one run.
        previous: what earlier runs remembered; at least the series of the instances that have points.

    >>> columns = "received_at metric_name metric_type temporality is_monotonic value"
    >>> sums = ("request.total", "sum", "cumulative", True)
    >>> first = table(spark, SENT_POINTS, columns, ("12:00:00", *sums, 10.0), ("12:01:00", *sums, 15.0))
    >>> show(mark(first), "received_at value delta reset gap before_subscription late")
    received_at  value  delta  reset  gap  before_subscription  late
    12:00:00     10     10     no     no   yes                  no
    12:01:00     15     5      no     no   no                   no

    In the next run the client had begun anew, a push was missing, and an old one came late:

    >>> next = table(spark, SENT_POINTS, columns, ("12:04:00", *sums, 3.0), ("12:00:30", *sums, 12.0))
    >>> show(mark(next, latest(first)), "received_at value delta reset gap before_subscription late")
    received_at  value  delta  reset  gap  before_subscription  late
    12:00:30     12     -      -      -    -                    yes
    12:04:00     3      3      yes    yes  no                   no
    """
    rows = _with_series(conform(points, SENT_POINTS)).withColumn("turn", F.lit(1))
    if previous is not None:
        remembered = conform(previous, SERIES).select(*_SERIES, _point().alias("own"), F.lit(0).alias("turn"))
        rows = rows.unionByName(remembered, allowMissingColumns=True)
    earlier = Window.partitionBy(*_SERIES).orderBy("turn", *_ORDER).rowsBetween(Window.unboundedPreceding, -1)
    # By instance alone: the points of one client come to lie together, and the window needs no other shuffle.
    compared = rows.repartition(*INSTANCE).withColumn("before", F.max("own").over(earlier)).where("turn = 1")
    judged = compared.withColumn("late", _of_series(F.coalesce(F.col("before") >= F.col("own"), F.lit(False))))
    marks = {"reset": _reset(), "gap": _gap(), "before_subscription": _before_subscription()}
    in_time = F.col("own").isNotNull() & ~F.col("late")
    judged = judged.withColumns({name: F.when(in_time, column) for name, column in marks.items()})
    growth = {"delta": _growth("amount"), "delta_sum": _growth("amount_sum")}
    return conform(judged.withColumns({name: F.when(in_time, column) for name, column in growth.items()}), POINTS)


def unmarked(gauges: DataFrame) -> DataFrame:
    """SENT_POINTS of gauges -> POINTS: what `mark` says of them, which is nothing, without its shuffle."""
    nothing = {field.name: F.lit(None).cast(field.dataType) for field in POINTS if field.name not in SENT_POINTS.names}
    return conform(gauges.withColumns(nothing), POINTS)


def latest(points: DataFrame, previous: DataFrame | None = None) -> DataFrame:
    """SENT_POINTS or POINTS (OF_SERIES is enough), and the SERIES of earlier runs -> SERIES: of each series the point
    received last.

    Idempotent: the same points again, or points that an earlier run has overtaken, change nothing.

    >>> columns = "received_at metric_name metric_type temporality value"
    >>> sent = table(spark, SENT_POINTS, columns, ("12:00:00", "request.total", "sum", "delta", 7.0),
    ...     ("12:01:00", "request.total", "sum", "delta", 2.0), ("12:01:00", "io.ratio", "gauge", None, 0.5))
    >>> show(latest(sent), "metric_name received_at amount")
    metric_name    received_at  amount
    request.total  12:01:00     2
    >>> show(latest(sent, latest(sent)), "metric_name received_at amount")
    metric_name    received_at  amount
    request.total  12:01:00     2
    """
    rows = _with_series(points).where(F.col("own").isNotNull()).select(*SERIES.names)
    if previous is not None:
        rows = rows.unionByName(conform(previous, SERIES))
    last = F.max_by(F.struct(*SERIES.names), F.struct(*_ORDER)).alias("last")
    return conform(rows.groupBy(*_SERIES).agg(last).select("last.*"), SERIES)


def _with_series(points: DataFrame) -> DataFrame:
    """With `series_key`, `amount`, `amount_sum`, and `own`: what is remembered of the point; null for a gauge."""
    labels = F.sort_array(F.map_entries("attributes"))
    rows = points.withColumns(
        {
            "series_key": F.xxhash64("metric_name", "metric_type", "temporality", labels, "occurrence"),
            "amount": F.coalesce(F.col("value"), F.col("count").cast("double")),
            "amount_sum": F.col("sum"),
        }
    )
    is_summary = F.col("metric_type") == "summary"  # cumulative, without saying so
    is_series = (F.col("metric_type") != "gauge") & (is_summary | F.col("temporality").isNotNull())
    return rows.withColumn("own", F.when(is_series & F.col("amount").isNotNull(), _point()))


def _point() -> Column:
    """What is compared and remembered; its order is that of `_ORDER`."""
    return F.struct(*_REMEMBERED)


def _of_series(column: Column) -> Column:
    return F.when(F.col("own").isNotNull(), column)


def _is_first() -> Column:
    return F.col("before").isNull()


def _is_delta() -> Column:
    return F.coalesce(F.col("temporality") == "delta", F.lit(False))


def _is_monotonic() -> Column:
    return F.coalesce(F.col("is_monotonic"), F.col("metric_type") != "sum")


def _longest_nano() -> Column:
    return interval_ms() * int(LONGEST_INTERVALS * 1_000_000)


def _not_covered_nano() -> Column:
    """From the end of the point before to the beginning of this one; null where the client does not say."""
    return F.col("start_time_unix_nano") - F.col("before.time_unix_nano")


def _reset() -> Column:
    fell = _is_monotonic() & (F.col("amount") < F.col("before.amount"))
    began_anew = (F.col("start_time_unix_nano") > F.col("before.start_time_unix_nano")) & (_not_covered_nano() >= 0)
    return ~_is_delta() & ~_is_first() & (fell | F.coalesce(began_anew, F.lit(False)))


def _gap() -> Column:
    distance_us = F.unix_micros("received_at") - F.unix_micros("before.received_at")
    push_is_missing = distance_us * 1000 > _longest_nano()
    of_delta = F.coalesce(_not_covered_nano() > _SLACK_NANO, push_is_missing)
    return ~_is_first() & F.when(_is_delta(), of_delta).otherwise(push_is_missing)


def _before_subscription() -> Column:
    reach_nano = F.col("time_unix_nano") - F.col("start_time_unix_nano")
    of_first = F.coalesce(reach_nano > _longest_nano(), F.lit(True))
    again = _is_delta() & F.coalesce(_not_covered_nano() < -_SLACK_NANO, F.lit(False))
    return F.when(_is_first(), of_first).otherwise(again)


def _growth(name: str) -> Column:
    """A first cumulative value is what was counted since its start, and `before_subscription` says so."""
    since = F.col(name) - F.col(f"before.{name}")
    return F.when(_is_delta() | _is_first() | F.col("reset"), F.col(name)).otherwise(since)

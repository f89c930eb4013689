"""The jobs behind the commands: read -> pure transforms -> a frame and what was counted on the way.

What is counted is known once the frame has been acted on, in the same pass.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from fleet.decode.tally import RejectTally
from fleet.gold.inventory import inventory
from fleet.gold.latency import METRIC_NAMES, overall
from fleet.selection import Selection
from fleet.silver import points as silver_points
from fleet.silver import pushes as silver_pushes
from fleet.silver.rejects import rejects as silver_rejects
from fleet.sources import Source, read_bronze

_FEW_REPEATS = 100_000  # 100 B each at most: what may well be broadcast


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A job's result, not yet computed.

    Attributes:
        frame: the rows, in no order.
        rejects: counts what is set aside while the frame is computed.
        repeats: pushes that were received more than once and are counted once.
    """

    frame: DataFrame
    rejects: RejectTally
    repeats: int


def answer_inventory(spark: SparkSession, source: Source, selection: Selection) -> Answer:
    """INVENTORY of a landing zone or topic."""
    return _answer(
        spark,
        source,
        selection,
        silver_points.count,
        lambda counted: inventory(silver_pushes.pushes(counted)),
    )


def answer_latency(spark: SparkSession, source: Source, selection: Selection) -> Answer:
    """LATENCY_OVERALL of a landing zone or topic."""
    return _answer(
        spark,
        source,
        selection,
        lambda checked, tally: silver_points.decode(checked, METRIC_NAMES, tally),
        lambda decoded: overall(silver_points.points(decoded)),
    )


def answer_points(spark: SparkSession, source: Source, selection: Selection, metric_prefix: str = "") -> Answer:
    """SENT_POINTS of a landing zone or topic, those of metrics whose names begin with `metric_prefix`."""
    return _answer(
        spark,
        source,
        selection,
        lambda checked, tally: silver_points.decode(checked, tally=tally),
        lambda decoded: silver_points.points(decoded).where(F.col("metric_name").startswith(metric_prefix)),
    )


def answer_rejects(spark: SparkSession, source: Source, selection: Selection) -> Answer:
    """REJECTS of a landing zone or topic."""
    return _answer(
        spark,
        source,
        selection,
        silver_points.count,
        silver_rejects,
    )


def _answer(
    spark: SparkSession,
    source: Source,
    selection: Selection,
    decode: Callable[[DataFrame, RejectTally], DataFrame],
    analyse: Callable[[DataFrame], DataFrame],
) -> Answer:
    checked, repeats = read_pushes(spark, source, selection)
    rejects = RejectTally(spark)
    return Answer(frame=analyse(decode(checked, rejects)), rejects=rejects, repeats=repeats)


def read_pushes(spark: SparkSession, source: Source, selection: Selection) -> tuple[DataFrame, int]:
    """CHECKED without repeats, and how many there were.

    Repeats are counted first: to know that they are few (or none) is to know that no payload need be shuffled.
    """
    checked = silver_pushes.check(read_bronze(spark, source, selection))
    ids = silver_pushes.repeated_ids(checked)
    pushes = ids.count()
    if pushes == 0:
        return checked, 0
    repeats = silver_pushes.find_repeats(checked, F.broadcast(ids) if pushes <= _FEW_REPEATS else ids)
    count = repeats.count()
    return silver_pushes.drop_repeats(checked, F.broadcast(repeats) if count <= _FEW_REPEATS else repeats), count

"""The questions on Spark: read -> the steps of `fleet.questions` on the executors -> a frame and what was counted.

What is counted is known once the frame has been acted on, in the same pass.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from fleet.decode.tally import RejectTally
from fleet.gold import frames
from fleet.questions import Question
from fleet.schemas import conform
from fleet.selection import Selection
from fleet.silver import pushes as silver_pushes
from fleet.sources import read_bronze
from fleet.spark_schema import spark_schema
from fleet.topic.source import Source

_FEW_REPEATS = 100_000  # 100 B each at most: what may well be broadcast


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkAnswer:
    """A question's answer, not yet computed.

    Attributes:
        frame: the rows, in no order.
        rejects: counts what is set aside while the frame is computed.
        repeats: pushes that were received more than once and are counted once.
    """

    frame: DataFrame
    rejects: RejectTally
    repeats: int


def answer(spark: SparkSession, asked: Question, source: Source, selection: Selection) -> SparkAnswer:
    """The answer from a landing zone or topic."""
    checked, repeats = read_pushes(spark, source, selection)
    rejects = RejectTally(spark)
    rows = checked.mapInArrow(asked.step(rejects), spark_schema(asked.partial))
    if asked.finish is not None:
        rows = frames.overall(rows, asked.finish, asked.schema)
    return SparkAnswer(frame=conform(rows, asked.schema), rejects=rejects, repeats=repeats)


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

"""The functions on pushes, run by Spark: one shuffle brings a client's pushes to one task, in the order of receipt.

What is counted is known once the frame has been acted on, in the same pass.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from fleetgauge.fleet.arrow import RecordBatch, Schema
from fleetgauge.fleet.decode.stage import CountPoints
from fleetgauge.fleet.decode.tally import TaskCount
from fleetgauge.fleet.engines.engine import in_order
from fleetgauge.fleet.engines.questions import Question, answer_rows
from fleetgauge.fleet.schemas import POINTS, PUSHES, conform
from fleetgauge.fleet.silver.batch import points_of, push_rows
from fleetgauge.fleet.silver.check import checked
from fleetgauge.fleet.silver.repeats import WithoutRepeats
from fleetgauge.fleet.source.kinds import read_bronze
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.source.topic.source import Source
from fleetgauge.fleet.spark_schema import spark_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkAnswer:
    """A question's answer, not yet computed.

    Attributes:
        frame: the rows, in no order.
        rejects: counts what is set aside while the frame is computed.
        repeats: counts pushes that were received more than once and are counted once.
    """

    frame: DataFrame
    rejects: TaskCount
    repeats: TaskCount


def answer(spark: SparkSession, asked: Question, source: Source, selection: Selection) -> SparkAnswer:
    """The answer from a landing zone or topic."""
    rejects, repeats = TaskCount(spark), TaskCount(spark)
    frame = _of_pushes(
        spark, source, selection, lambda rows: answer_rows(asked, rows, rejects), asked.schema, repeats.add
    )
    return SparkAnswer(frame=frame, rejects=rejects, repeats=repeats)


def pushes(spark: SparkSession, source: Source, selection: Selection) -> DataFrame:
    """A source -> PUSHES, without repeats and what cannot be read."""
    return _of_pushes(spark, source, selection, _push_rows, PUSHES)


def points(spark: SparkSession, source: Source, selection: Selection) -> DataFrame:
    """A source -> POINTS, compared with one another."""
    return _of_pushes(spark, source, selection, points_of, POINTS)


def _push_rows(rows: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    for counted in CountPoints(None)(rows):
        yield push_rows(counted.filter(counted.column("reason").is_null()))


Step = Callable[[Iterable[RecordBatch]], Iterator[RecordBatch]]


def _of_pushes(
    spark: SparkSession,
    source: Source,
    selection: Selection,
    step: Step,
    schema: Schema,
    repeats: Callable[[int], None] = lambda _: None,
) -> DataFrame:
    def of_distinct(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        without = WithoutRepeats()
        yield from step(without(checked(batches)))
        repeats(without.repeats)

    rows = in_order(read_bronze(spark, source, selection))
    return conform(rows.mapInArrow(of_distinct, spark_schema(schema)), schema)

"""The functions on pushes, run by Spark: one shuffle brings a client's pushes to one task, in the order of receipt.

What is counted is known once the frame has been acted on, in the same pass.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from fleetgauge.fleet.arrow import RecordBatch, Schema, pa
from fleetgauge.fleet.decode.stage import CountPoints
from fleetgauge.fleet.engines.engine import packing, shuffled
from fleetgauge.fleet.engines.parcels import PARCELS, Unpack
from fleetgauge.fleet.engines.questions import Question, RejectCount, answer_rows
from fleetgauge.fleet.schemas import POINTS, PUSHES, conform
from fleetgauge.fleet.silver.batch import points_of, push_rows
from fleetgauge.fleet.silver.check import checked
from fleetgauge.fleet.silver.repeats import WithoutRepeats
from fleetgauge.fleet.source.kinds import read_bronze
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.source.topic.source import Source
from fleetgauge.fleet.spark_schema import spark_schema

_REJECTS: Final = "_rejects"
_REPEATS: Final = "_repeats"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkAnswer:
    """A question's answer, not yet computed.

    Attributes:
        frame: the rows, in no order.
    """

    frame: DataFrame
    _counted: Observation

    @property
    def rejects(self) -> int:
        """Pushes that were set aside in the first action on the frame, for whose end this waits."""
        return self._counted.get[_REJECTS] or 0

    @property
    def repeats(self) -> int:
        """Pushes that were received more than once and count once; as `rejects`."""
        return self._counted.get[_REPEATS] or 0


def answer(spark: SparkSession, asked: Question, source: Source, selection: Selection) -> SparkAnswer:
    """The answer from a landing zone or topic.

    Each task adds a row of null but for what it counted, which is summed in passing and left out.
    """
    counted = Observation()
    with_counts = pa.schema(
        [
            *(field.with_nullable(True) for field in asked.schema),
            pa.field(_REJECTS, pa.int64()),
            pa.field(_REPEATS, pa.int64()),
        ]
    )

    def answered(rows: Iterable[RecordBatch], repeats: WithoutRepeats) -> Iterator[RecordBatch]:
        rejects = RejectCount()
        for batch in answer_rows(asked, rows, rejects):
            nulls = pa.nulls(batch.num_rows, pa.int64())
            yield pa.RecordBatch.from_arrays([*batch.columns, nulls, nulls], schema=with_counts)
        yield pa.RecordBatch.from_pylist([{_REJECTS: rejects.total, _REPEATS: repeats.repeats}], schema=with_counts)

    frame = _of_pushes(spark, source, selection, answered, with_counts)
    frame = frame.observe(counted, *(F.sum(name).alias(name) for name in (_REJECTS, _REPEATS)))
    return SparkAnswer(frame=frame.where(F.col(_REJECTS).isNull()).select(*asked.schema.names), _counted=counted)


def pushes(spark: SparkSession, source: Source, selection: Selection) -> DataFrame:
    """A source -> PUSHES, without repeats and what cannot be read."""
    return _of_pushes(spark, source, selection, lambda rows, _: push_batches(rows), PUSHES)


def points(spark: SparkSession, source: Source, selection: Selection) -> DataFrame:
    """A source -> POINTS, compared with one another."""
    return _of_pushes(spark, source, selection, lambda rows, _: points_of(rows), POINTS)


def push_batches(checked: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    """CHECKED -> PUSHES, without what cannot be read."""
    for counted in CountPoints(None)(checked):
        yield push_rows(counted.filter(counted.column("reason").is_null()))


Step = Callable[[Iterable[RecordBatch], WithoutRepeats], Iterator[RecordBatch]]


def _of_pushes(spark: SparkSession, source: Source, selection: Selection, step: Step, schema: Schema) -> DataFrame:
    pack = packing(spark)
    unpack = Unpack(shards=pack.shards)

    def of_distinct(parcels: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        without = WithoutRepeats()
        return step(without(checked(unpack(parcels))), without)

    parcels = read_bronze(spark, source, selection).mapInArrow(pack, spark_schema(PARCELS))
    return conform(shuffled(parcels, pack.tasks).mapInArrow(of_distinct, spark_schema(schema)), schema)

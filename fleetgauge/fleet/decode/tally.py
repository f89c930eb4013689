"""What the tasks of a job count, in the very pass that makes its rows."""

from pyspark import AccumulatorParam, TaskContext
from pyspark.sql import SparkSession


class _ByPartition(AccumulatorParam[dict[int, int]]):
    """Counts by partition; the last one stands, so that a task that runs again is not counted twice."""

    def zero(self, value: dict[int, int]) -> dict[int, int]:
        """No partition counted."""
        return {}

    def addInPlace(self, value1: dict[int, int], value2: dict[int, int]) -> dict[int, int]:  # noqa: N802  # Spark's
        """Both, the later one where they differ."""
        value1.update(value2)
        return value1


class TaskCount:
    """Counts what the tasks of one job did. Complete once an action has consumed all of the job's rows.

    Not an `Observation`: Spark never completes one whose node it optimised away, as it does for an empty result.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._counts = spark.sparkContext.accumulator({}, _ByPartition())

    def add(self, count: int) -> None:
        """On an executor, once a task: its count in all."""
        context = TaskContext.get()
        self._counts.add({context.partitionId() if context else 0: count})

    @property
    def total(self) -> int:
        """On the driver: of all tasks so far."""
        return sum(self._counts.value.values())

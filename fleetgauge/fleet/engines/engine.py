"""What runs the tasks of a job: this process, or Spark."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from pyarrow.fs import FileSystem

from fleetgauge.fleet.arrow import RecordBatch, allocate_with_jemalloc, pa, pc
from fleetgauge.fleet.errors import LandingError
from fleetgauge.fleet.schemas import BRONZE
from fleetgauge.fleet.silver.check import KEYS
from fleetgauge.fleet.silver.repeats import ORDER
from fleetgauge.fleet.source import landing
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.source.zone_files import LOCAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Part = TypeVar("Part")
Made = TypeVar("Made")
Task = Callable[[Iterable[RecordBatch]], Made]

MAX_BAD_FILES: Final = 100
"""Files of one batch that are set aside at most: where so many cannot be read, something else is wrong."""

_TASKS_AT_LEAST: Final = 8
_CANNOT_BE_READ: Final = "the file cannot be read: it is damaged, or gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one batch reads.

    Attributes:
        number: it is the `number`-th of its source.
        files: a landing zone's, by their whole paths; none for a topic.
        system: the file system that has them, where this process may read them.
        unfit: files that are not what they were when the batch was planned, and why.
        records: a topic's, as BRONZE.
    """

    number: int
    files: tuple[str, ...] = ()
    system: FileSystem = field(default_factory=lambda: LOCAL)
    unfit: Mapping[str, str] = field(default_factory=dict)
    records: "DataFrame | None" = None


class Engine(Protocol):
    """Runs tasks."""

    @property
    def parts(self) -> int:
        """How many parts a job is best divided into."""

    def map(self, task: Callable[[Part], Made], parts: Sequence[Part]) -> Iterable[Made]:
        """What a task makes of each part, which may be on another machine: task, parts and results are pickled."""

    def make(self, batch: Batch, bad: dict[str, str], task: Task[Made]) -> list[Made]:
        """What a task makes of BRONZE of a batch, in `repeats.ORDER`; all pushes of an instance come to one task.

        Args:
            batch: what to read.
            bad: its files that are not read, and why; those that cannot be are added.
            task: what is made.

        Raises:
            LandingError: too many files cannot be read.
        """


class InProcess:
    """One part after the other, here."""

    rows_at_once: int = 1024
    """Rows that a task is handed together."""

    parts = 1

    def map(self, task: Callable[[Part], Made], parts: Sequence[Part]) -> Iterator[Made]:
        """What a task makes of each part."""
        return map(task, parts)

    def make(self, batch: Batch, bad: dict[str, str], task: Task[Made]) -> list[Made]:
        """What a task makes of the batch, which is held in memory."""
        allocate_with_jemalloc()
        read: list[RecordBatch] = []
        for path in batch.files:
            if path not in bad:
                try:
                    read += list(landing.read(path, Selection(), system=batch.system))  # all of it or nothing
                except LandingError as error:
                    set_aside(bad, path, error)
        rows = pa.Table.from_batches(read, schema=BRONZE).combine_chunks()
        for name in KEYS:
            rows = rows.set_column(rows.schema.get_field_index(name), BRONZE.field(name), pc.fill_null(rows[name], ""))
        order = pc.sort_indices(rows, sort_keys=[(name, "ascending", "at_start") for name in ORDER])
        pieces = (order.slice(begin, self.rows_at_once) for begin in range(0, len(order), self.rows_at_once))
        return [task(rows.take(piece).combine_chunks().to_batches()[0] for piece in pieces)]


def set_aside(bad: dict[str, str], path: str, error: Exception) -> None:
    """Notes a file that cannot be read.

    Raises:
        LandingError: they are too many.
    """
    if len(bad) == MAX_BAD_FILES:
        raise LandingError(
            f"more than {MAX_BAD_FILES} files cannot be read, {path} among them: is this a landing zone, and may they "
            "be read?"
        ) from error
    bad[path] = _CANNOT_BE_READ


class OnSpark:
    """Side by side, on Spark's executors.

    Args:
        start: gives the session, once it is needed.
    """

    def __init__(self, start: Callable[[], "SparkSession"]) -> None:
        self._start = start

    @cached_property
    def spark(self) -> "SparkSession":
        """The session."""
        return self._start()

    @property
    def parts(self) -> int:
        """A few for each core, so that they end together."""
        return 4 * self.spark.sparkContext.defaultParallelism

    def map(self, task: Callable[[Part], Made], parts: Sequence[Part]) -> Iterable[Made]:
        """What a task makes of each part."""
        if not parts:
            return []
        return self.spark.sparkContext.parallelize(parts, len(parts)).map(task).collect()

    def make(self, batch: Batch, bad: dict[str, str], task: Task[Made]) -> list[Made]:
        """What a task makes of each client's pushes, which one shuffle brings together."""
        spark = self.spark  # which says what is missing, if anything is
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from fleetgauge.fleet.spark.errors import unreadable_file

        def pickled(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
            allocate_with_jemalloc()
            yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(task(batches))], pa.binary())], names=["made"])

        while True:
            try:
                rows = in_order(_bronze(spark, batch, bad)).mapInArrow(pickled, "made binary").collect()
                return [pickle.loads(row.made) for row in rows]  # noqa: S301  # of our own executors
            except (PySparkException, Py4JError) as error:
                path = unreadable_file(error)
                if path is None or path not in batch.files or path in bad:
                    raise
                set_aside(bad, path, error)


def _bronze(spark: "SparkSession", batch: Batch, bad: dict[str, str]) -> "DataFrame":
    from fleetgauge.fleet.schemas import PUSH_RECORD
    from fleetgauge.fleet.source.bronze import with_origin
    from fleetgauge.fleet.spark.local_rows import local_rows
    from fleetgauge.fleet.spark_schema import spark_schema
    from fleetgauge.fleet.tables.paths import qualified

    if batch.records is not None:
        return batch.records
    good = [qualified(path) for path in batch.files if path not in bad]
    if not good:
        return local_rows(spark, [], BRONZE)
    return with_origin(spark.read.schema(spark_schema(PUSH_RECORD)).parquet(*good))


def in_order(bronze: "DataFrame") -> "DataFrame":
    """BRONZE, divided among tasks so that a shard is one task's, in `repeats.ORDER`."""
    from pyspark.sql import functions as F  # noqa: N812

    session = bronze.sparkSession
    configured = int(session.conf.get("spark.sql.shuffle.partitions") or 0)
    # Spark's own choice on a cluster is 200, however few the pushes and cores.
    tasks = max(session.sparkContext.defaultParallelism, min(configured, _TASKS_AT_LEAST))
    known = bronze.withColumns({name: F.coalesce(name, F.lit("")) for name in KEYS})
    return known.repartition(tasks, F.substring("client_instance_id", 1, 1)).sortWithinPartitions(*ORDER)

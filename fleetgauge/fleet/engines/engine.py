"""Engines that run the tasks of a job: this process, or Spark."""

import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from pyarrow.fs import FileSystem

from fleetgauge.fleet import shards
from fleetgauge.fleet.arrow import RecordBatch, Table, allocate_with_jemalloc, pa, pc, to_list
from fleetgauge.fleet.engines.parcels import PARCELS, Pack, Unpack, in_order
from fleetgauge.fleet.errors import LandingError
from fleetgauge.fleet.schemas import BRONZE, schema_of
from fleetgauge.fleet.source import landing
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.source.zone_files import LOCAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Part = TypeVar("Part")
Result = TypeVar("Result")
Task = Callable[[Iterable[RecordBatch]], Result]

MAX_BAD_FILES: Final = 100
"""Most files of one batch that may be unreadable: with more of them the fault is elsewhere."""

_PARTS: Final = schema_of(("number", pa.int32()), ("part", pa.binary()))
_RESULTS: Final = schema_of(("number", pa.int32()), ("result", pa.binary()))
"""Pickled parts and results, as they are sent to Spark's tasks and returned."""

_TASKS_AT_LEAST: Final = 8
_CANNOT_BE_READ: Final = "the file cannot be read: it is damaged, or gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Input of one batch.

    Attributes:
        number: its number among the batches of its source.
        files: a landing zone's, by their whole paths; none for a topic.
        system: the file system that has them; None where only Spark reads it.
        unfit: files that changed since the batch was planned, with the reason.
        records: a topic's, as BRONZE.
    """

    number: int
    files: tuple[str, ...] = ()
    system: FileSystem | None = field(default_factory=lambda: LOCAL)
    unfit: Mapping[str, str] = field(default_factory=dict)
    records: "DataFrame | None" = None


class Engine(Protocol):
    """Runs tasks."""

    @property
    def parts(self) -> int:
        """Number of parts that suits a job."""

    @property
    def shards(self) -> int:
        """Number of shards that instances are divided into; one task handles a shard. See `fleet.shards`."""

    def map(self, task: Callable[[Part], Result], parts: Sequence[Part]) -> Iterable[Result]:
        """Applies `task` to each part, possibly on another machine: task, parts and results are pickled."""

    def make(self, batch: Batch, bad: dict[str, str], task: Task[Result]) -> list[Result]:
        """Applies a task to the BRONZE rows of a batch, in `repeats.ORDER`; one task gets all pushes of an instance.

        Args:
            batch: what to read.
            bad: its files that are not read, and why; those that cannot be are added.
            task: what is made.

        Raises:
            LandingError: too many files cannot be read.
        """


class InProcess:
    """Runs one part after the other in this process."""

    count = 1
    parts = 1
    shards = shards.shards_for(1)

    def map(self, task: Callable[[Part], Result], parts: Sequence[Part]) -> Iterator[Result]:
        """Applies `task` to each part."""
        return map(task, parts)

    def make(self, batch: Batch, bad: dict[str, str], task: Task[Result]) -> list[Result]:
        """Applies a task to the batch, which is held in memory."""
        rows, unread = read_batch(batch, bad)
        for path in unread:
            set_aside(bad, path)
        return [task(in_order(rows))]


def read_batch(
    batch: Batch, bad: Collection[str], select: Callable[[RecordBatch], RecordBatch] | None = None
) -> tuple[Table, list[str]]:
    """Reads the files of a batch in this process.

    Args:
        batch: what to read.
        bad: its files that are not read.
        select: gives the rows to keep; None keeps all.

    Returns:
        BRONZE, and the files that cannot be read, of which no row is there; once there are too many, no further file
        is read.
    """
    allocate_with_jemalloc()
    read: list[RecordBatch] = []
    unread: list[str] = []
    for path in batch.files:
        if path not in bad and len(unread) <= MAX_BAD_FILES:
            rows = landing.read(path, Selection(), system=batch.system or LOCAL)
            try:
                read += list(rows if select is None else map(select, rows))  # all of it or nothing
            except LandingError:
                unread.append(path)
    return pa.Table.from_batches(read, schema=BRONZE).combine_chunks(), unread


def set_aside(bad: dict[str, str], path: str) -> None:
    """Records a file that cannot be read.

    Raises:
        LandingError: they are too many.
    """
    if len(bad) == MAX_BAD_FILES:
        raise LandingError(
            f"more than {MAX_BAD_FILES} files cannot be read, for example {path}: check that this is a landing "
            "zone and that its files are readable"
        )
    bad[path] = _CANNOT_BE_READ


class OnSpark:
    """Runs parts in parallel on Spark's executors.

    Args:
        start: gives the session, once it is needed.
    """

    def __init__(self, start: Callable[[], "SparkSession"]) -> None:
        self._start = start

    @cached_property
    def spark(self) -> "SparkSession":
        """The session; started on first use."""
        return self._start()

    @property
    def calls_back(self) -> bool:
        """True if a streaming query calls functions in this process; those of Spark Connect run in the server."""
        from pyspark.sql.utils import is_remote

        return self.spark is not None and not is_remote()

    @property
    def parts(self) -> int:
        """A few parts per core, so that all cores finish at about the same time."""
        from fleetgauge.fleet.spark.session import parallelism

        return 4 * parallelism(self.spark)

    @property
    def shards(self) -> int:
        """Number of shards; see `packing`."""
        return packing(self.spark).shards

    def map(self, task: Callable[[Part], Result], parts: Sequence[Part]) -> Iterable[Result]:
        """Applies `task` to each part."""
        from fleetgauge.fleet.spark_schema import spark_schema

        if not parts:
            return []

        def pickled(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
            for batch in batches:
                results = [pickle.dumps(task(pickle.loads(part))) for part in to_list(batch.column("part"))]  # noqa: S301
                columns = [batch.column("number"), pa.array(results, pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, _RESULTS.names)

        given = pa.table([range(len(parts)), [pickle.dumps(part) for part in parts]], schema=_PARTS)
        frame = self.spark.createDataFrame(given, spark_schema(_PARTS))
        # From one partition Spark hands out rows one by one: each part is a task's.
        results = frame.coalesce(1).repartition(len(parts)).mapInArrow(pickled, spark_schema(_RESULTS)).collect()
        return [pickle.loads(row.result) for row in sorted(results)]  # noqa: S301  # of our own executors

    def make(self, batch: Batch, bad: dict[str, str], task: Task[Result]) -> list[Result]:
        """Applies a task to each client's pushes, which one shuffle brings together."""
        spark = self.spark  # which says what is missing, if anything is
        from fleetgauge.fleet.source.bronze import read_files
        from fleetgauge.fleet.spark_schema import spark_schema

        pack = packing(spark)
        unpack = Unpack(shards=pack.shards)

        def pickled(parcels: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
            allocate_with_jemalloc()
            unread: list[str] = []
            outcome = pickle.dumps((task(_without_files(unpack(parcels), unread)), unread))
            yield pa.RecordBatch.from_arrays([pa.array([outcome], pa.binary())], names=["result"])

        if batch.records is None:
            good = [path for path in batch.files if path not in bad]
            parcels = read_files(spark, good, batch.system, 4 * pack.tasks, pack, PARCELS)
        else:
            parcels = batch.records.mapInArrow(pack, spark_schema(PARCELS))
        rows = shuffled(parcels, pack.tasks).mapInArrow(pickled, "result binary").collect()
        outcomes = [pickle.loads(row.result) for row in rows]  # noqa: S301  # of our own executors
        for path in (path for _, unread in outcomes for path in unread):
            set_aside(bad, path)
        return [result for result, _ in outcomes]


def _without_files(batches: Iterable[RecordBatch], unread: list[str]) -> Iterator[RecordBatch]:
    """BRONZE without the rows that stand for a file which cannot be read, whose path is noted."""
    for rows in batches:
        is_file = pc.and_(rows.column("fault").is_valid(), rows.column("source_row").is_null())
        unread += to_list(rows.filter(is_file).column("source_file"))
        yield rows.filter(pc.invert(is_file))


def packing(spark: "SparkSession") -> Pack:
    """Division of pushes among the tasks of a session.

    Tasks have shards that follow one another, about as many each: instances go by where their ids lie among all, and
    ids are random.
    """
    tasks = _tasks(spark)
    return Pack(shards=shards.shards_for(tasks), tasks=tasks)


def shuffled(parcels: "DataFrame", tasks: int) -> "DataFrame":
    """PARCELS, each in the partition of its task."""
    from pyspark.sql import functions as F  # noqa: N812

    places = F.array(*(F.lit(number) for number in shards.placed(tasks)))
    return parcels.repartition(tasks, F.element_at(places, F.col("task") + 1))


def _tasks(spark: "SparkSession") -> int:
    from fleetgauge.fleet.spark.session import parallelism

    configured = int(spark.conf.get("spark.sql.shuffle.partitions") or 0)
    # Spark's own choice on a cluster is 200, however few the pushes and cores.
    return max(parallelism(spark), min(configured, _TASKS_AT_LEAST))

"""Sources as `fleet run` reads them: what is new of a landing zone or topic, cut into batches, and a batch's rows."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from hashlib import sha256
from typing import Final
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from fleet.bronze import with_origin
from fleet.errors import LandingError, TopicError, no_landing_zone
from fleet.landing import refuse_data_directory
from fleet.local_rows import local_rows
from fleet.pipeline.ledger import Ledger, Part, Plan, day_of
from fleet.schemas import BRONZE, PUSH_RECORD
from fleet.sources import Source
from fleet.spark_errors import is_missing_path, what_failed
from fleet.spark_schema import spark_schema
from fleet.tables.paths import local_path, plain_path, qualified
from fleet.topic.offsets import Span, client_options, find_bounds
from fleet.topic.read import reader_options
from fleet.topic.records import to_bronze
from fleet.topic.source import TopicSource

MAX_BATCH_BYTES: Final = 256 * 1024 * 1024
"""Parquet of a landing zone that one batch reads [B], unless a number of files is given: of real clients some twenty
million data points, whose payloads are twenty times as large, and pass through a shuffle."""

MAX_BATCH_RECORDS: Final = 2_000_000
"""Records of a topic that one batch reads."""

MAX_BAD_FILES: Final = 100
"""Files of one batch that are set aside at most: where so many cannot be read, something else is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much one batch reads at most.

    Attributes:
        max_files: of a landing zone; None goes by their bytes.
        max_records: of a topic.
    """

    max_files: int | None = None
    max_records: int = MAX_BATCH_RECORDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one batch reads.

    Attributes:
        number: it is the `number`-th of its source.
        files: a landing zone's, by their whole paths; none for a topic.
        unfit: files that are not what they were when the batch was planned, and why.
        records: a topic's, as BRONZE.
    """

    number: int
    files: tuple[str, ...] = ()
    unfit: Mapping[str, str] = field(default_factory=dict)
    records: DataFrame | None = None

    def bronze(self, spark: SparkSession, bad: Collection[str]) -> DataFrame:
        """Its rows without those of files that cannot be read -> BRONZE."""
        if self.records is not None:
            return self.records
        good = [qualified(path) for path in self.files if path not in bad]
        return (
            with_origin(spark.read.schema(spark_schema(PUSH_RECORD)).parquet(*good))
            if good
            else local_rows(spark, [], BRONZE)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What a source holds that was not yet read.

    Attributes:
        amount: files or records.
        unit: which of them.
        lost: records that retention has taken before they were read.
        changed: files that are of another size than when they were read.
    """

    amount: int
    unit: str
    lost: int = 0
    changed: tuple[str, ...] = ()


class LandingSource:
    """A landing zone's files, in the order of their paths.

    Args:
        start: gives the session, which only a zone on another file system needs here.
        source: its path or URI.
        ledger: what was read of it.

    Raises:
        LandingError: there is no such directory, or it cannot be listed.
    """

    def __init__(self, start: Callable[[], SparkSession], source: str, ledger: Ledger) -> None:
        self._root = plain_path(qualified(source))
        self._sizes = list_files(start, source)
        self._ledger = ledger

    def news(self) -> News:
        """New files, and those that have changed."""
        known = self._ledger.read_to
        changed = [f"{self._root}/{path}" for path, size in self._sizes.items() if known.get(path, size) != size]
        return News(amount=len(self._sizes.keys() - known), unit="files", changed=tuple(sorted(changed)))

    def cut(self, bounds: Bounds) -> Iterator[list[Part]]:
        """By number or bytes; a file is never parted."""
        batch: list[Part] = []
        size_bytes = 0
        for path in sorted(self._sizes.keys() - self._ledger.read_to):
            part = Part(path=path, begin=0, end=self._sizes[path])
            if batch and (
                len(batch) == bounds.max_files if bounds.max_files else size_bytes + part.end > MAX_BATCH_BYTES
            ):
                yield batch
                batch, size_bytes = [], 0
            batch.append(part)
            size_bytes += part.end
        if batch:
            yield batch

    def batch(self, plan: Plan) -> Batch:
        """Its files.

        Raises:
            LandingError: many of them are there no more.
        """
        unfit = {f"{self._root}/{part.path}": said for part in plan.parts if (said := self._fault(part))}
        if len(unfit) > MAX_BAD_FILES:
            raise LandingError(
                f"{len(unfit):,} files of a batch that was begun are not in {self._root} as they were, "
                f"{next(iter(unfit))} among them: put them back, and run again"
            )
        return Batch(number=plan.number, files=tuple(f"{self._root}/{part.path}" for part in plan.parts), unfit=unfit)

    def check_day(self, day: date) -> None:
        """Raises LandingError unless every file of a day that was read is there as it was."""
        of_day = {path: size for path, size in self._ledger.read_to.items() if day_of(path) == day}
        if not of_day:
            raise LandingError(
                f"no file of {day} was read from {self._root}: --redecode takes a day of receipt (UTC), as the "
                "directories of a landing zone are named"
            )
        if other := [path for path, size in of_day.items() if self._sizes.get(path) != size]:
            raise LandingError(
                f"{len(other):,} of {len(of_day):,} files of {day} are not in {self._root} as they were read, "
                f"{other[0]} among them: --redecode needs them all; nothing was changed"
            )

    def _fault(self, part: Part) -> str | None:
        size = self._sizes.get(part.path)
        if size is None:
            return "the file was taken away before it was read"
        if size != part.end:
            return f"the file has changed before it was read: it had {part.end} B, and has {size} B"
        return None


def list_files(start: Callable[[], SparkSession], source: str) -> dict[str, int]:
    """Path below the landing zone and size [B] of its files; names that begin with `_` or `.` are writers' own.

    Raises:
        LandingError: there is no such directory, or it cannot be listed.
    """
    directory = local_path(source)
    if directory is None:
        return _list_by_spark(start(), qualified(source))
    if not directory.is_dir():
        raise LandingError(no_landing_zone(source))
    refuse_data_directory(directory)
    try:
        found = fs.LocalFileSystem().get_file_info(fs.FileSelector(str(directory), recursive=True))
    except OSError as error:
        raise LandingError(f"cannot list the landing zone {directory}: {error}") from error
    sizes = {info.path[len(str(directory)) + 1 :]: info.size for info in found if info.is_file}
    return {path: size for path, size in sizes.items() if not any(map(_is_hidden, path.split("/")))}


def _is_hidden(name: str) -> bool:
    """As Spark has it: `_date=1` would be a column's directory."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _list_by_spark(spark: SparkSession, uri: str) -> dict[str, int]:
    """With the session's own credentials, whichever file system it is."""
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        found = files.load(uri).select("path", "length").collect()
    except (PySparkException, Py4JJavaError) as error:
        if is_missing_path(error):
            raise LandingError(no_landing_zone(uri)) from error
        raise LandingError(f"cannot list the landing zone {uri}: {what_failed(error)}") from error
    prefix = len(uri) + 1
    return {unquote(row.path)[prefix:]: row.length for row in found}


class TopicStretch:
    """The push records on a topic, from what was read of each partition to its end now.

    Raises:
        TopicError: no broker answers, there is no such topic, it may not be read, or it is another one by now.
    """

    def __init__(self, spark: SparkSession, source: TopicSource, ledger: Ledger, ledger_path: str) -> None:
        self._spark = spark
        self._source = source
        self._options = client_options(spark, source)
        bounds = find_bounds(spark, source, self._options)
        read_to = {int(number): end for number, end in ledger.read_to.items()}
        check_same_topic(source, bounds, read_to, ledger_path)
        self._lost = lost_records(bounds, read_to)
        self._new = {
            number: Span(start=max(read_to.get(number, 0), span.start), end=span.end)
            for number, span in bounds.items()
            if read_to.get(number, 0) < span.end
        }

    def news(self) -> News:
        """Records, and how many are gone."""
        amount = sum(span.end - span.start for span in self._new.values())
        return News(amount=amount, unit="records", lost=self._lost)

    def cut(self, bounds: Bounds) -> Iterator[list[Part]]:
        """Each batch takes the same share of every partition, so that it holds about the same time of each."""
        batches = -(-self.news().amount // bounds.max_records) or int(bool(self._new))
        for number in range(batches):
            yield [
                Part(path=str(partition), begin=_cut(span, number, batches), end=_cut(span, number + 1, batches))
                for partition, span in sorted(self._new.items())
            ]

    def batch(self, plan: Plan) -> Batch:
        """Its records as push records."""
        spans = {int(part.path): Span(start=part.begin, end=part.end) for part in plan.parts}
        options = reader_options(self._spark, self._source, self._options, spans)
        return Batch(number=plan.number, records=to_bronze(self._spark.read.format("kafka").options(**options).load()))

    def check_day(self, day: date) -> None:
        """Raises TopicError: records lie in the order of arrival."""
        raise TopicError("--redecode reads a day of a landing zone again, and a topic has no days: name a landing zone")


def _cut(span: Span, number: int, batches: int) -> int:
    """Where the `number`-th of so many equal parts begins.

    >>> [_cut(Span(start=100, end=110), number, 3) for number in range(4)]
    [100, 103, 106, 110]
    """
    return span.start + (span.end - span.start) * number // batches


def check_same_topic(source: TopicSource, bounds: Mapping[int, Span], read_to: Mapping[int, int], place: str) -> None:
    """Raises TopicError if a partition was read up to an offset that it does not have."""
    for number, offset in read_to.items():
        if number not in bounds or bounds[number].end < offset:
            raise TopicError(
                f"the topic {source.topic} was made anew since it was read last: its partition {number} was read up to "
                f"offset {offset}, which it does not have; remove {place} to read it from its beginning (what is in "
                "the tables is not counted again)"
            )


def lost_records(bounds: Mapping[int, Span], read_to: Mapping[int, int]) -> int:
    """Records that retention has taken before they were read."""
    return sum(max(0, bounds[number].start - offset) for number, offset in read_to.items())


def source_name(source: Source) -> str:
    """Names a source among others, also in later runs."""
    if isinstance(source, TopicSource):
        servers = ",".join(sorted(source.bootstrap_servers.split(",")))
        return f"topic-{source.topic}-{_short_hash(servers)}"
    return f"landing-{_short_hash(qualified(source))}"


def _short_hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]

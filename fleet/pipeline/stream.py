"""What is new of a source: Spark's own file stream or Kafka stream, which keeps its place in a checkpoint."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from fleet.bronze import with_origin
from fleet.errors import LandingError, TopicError
from fleet.local_rows import local_rows
from fleet.pipeline.files import count_files, count_planned, exists, files_of_batch, qualified
from fleet.schemas import BRONZE, PUSH_RECORD
from fleet.sources import Source
from fleet.spark_errors import plain_path, what_failed
from fleet.spark_schema import spark_schema
from fleet.topic.offsets import client_options, find_bounds
from fleet.topic.read import fetch_options
from fleet.topic.records import to_bronze
from fleet.topic.source import TopicSource

MAX_BATCH_BYTES: Final = 256 * 1024 * 1024
"""Parquet of a landing zone that one batch reads [B], unless a number of files is given: of real clients some twenty
million data points, whose payloads are twenty times as large, and pass through a shuffle."""

MAX_BATCH_RECORDS: Final = 2_000_000
"""Records of a topic that one batch reads."""

_EVERY_FILE: Final = "36500d"
"""The stream forgets files that are older than the newest by more than this, and would pass over them in silence."""


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
    """What the stream gives to one batch.

    Attributes:
        number: it is the `number`-th of its checkpoint.
        files: a landing zone's files, by their paths, with the time of their last change; none for a topic.
        records: a topic's, as BRONZE.
    """

    number: int
    files: Mapping[str, datetime] = field(default_factory=dict)
    records: DataFrame | None = None

    def bronze(self, spark: SparkSession, bad: Collection[str]) -> DataFrame:
        """Its rows without those of files that cannot be read -> BRONZE."""
        if self.records is not None:
            return self.records
        return _read_files(spark, [path for path in self.files if path not in bad])


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What a source holds that was not yet read.

    Attributes:
        amount: files or records, as far as a glance tells.
        unit: which of them.
        lost: records that retention has taken before they were read.
    """

    amount: int
    unit: str
    lost: int = 0


class Stream(Protocol):
    """A source as a stream."""

    name: str
    """Names the checkpoint among those of other sources."""

    def start(self, spark: SparkSession, bounds: Bounds) -> DataFrame:
        """The stream, for `writeStream`."""

    def waiting(self, spark: SparkSession, checkpoint: str, *, count: bool) -> Waiting:
        """What there is to be read; without `count` an amount that costs something is left at 0."""

    def batch(self, spark: SparkSession, checkpoint: str, frame: DataFrame, number: int) -> Batch:
        """What `foreachBatch` was given."""


class LandingStream:
    """A landing zone's files, the oldest first.

    Raises:
        LandingError: there is no such path, or it is no directory that Spark can read.
    """

    def __init__(self, spark: SparkSession, source: str) -> None:
        self._uri = qualified(spark, source)
        if not exists(spark, self._uri):
            raise LandingError(
                f"there is no landing zone at {source}: name the directory that the exporter of type landing writes to "
                "with --source"
            )
        self.name = f"landing-{sha256(self._uri.encode()).hexdigest()[:12]}"

    def start(self, spark: SparkSession, bounds: Bounds) -> DataFrame:
        """The stream of files; its rows are of no use, since `batch` reads the files itself.

        Raises:
            LandingError: Spark cannot list the files.
        """
        limit = (
            {"maxBytesPerTrigger": str(MAX_BATCH_BYTES)}
            if bounds.max_files is None
            else {"maxFilesPerTrigger": str(bounds.max_files)}
        )
        reader = spark.readStream.schema(spark_schema(PUSH_RECORD)).options(maxFileAge=_EVERY_FILE, **limit)
        try:
            return reader.parquet(self._uri)
        except (AnalysisException, Py4JJavaError) as error:
            raise LandingError(f"cannot read {self._uri} as a landing zone: {what_failed(error)}") from error

    def waiting(self, spark: SparkSession, checkpoint: str, *, count: bool) -> Waiting:
        """Files that the checkpoint does not know, unfinished ones of writers among them."""
        if not count:
            return Waiting(amount=0, unit="files")
        return Waiting(amount=max(0, count_files(spark, self._uri) - count_planned(spark, checkpoint)), unit="files")

    def batch(self, spark: SparkSession, checkpoint: str, frame: DataFrame, number: int) -> Batch:
        """The batch's files, read anew: column by column, and without those that cannot be read if need be."""
        files = {
            plain_path(uri): datetime.fromtimestamp(changed_ms / 1000, UTC)
            for uri, changed_ms in files_of_batch(spark, checkpoint, number)
        }
        return Batch(number=number, files=files)


def _read_files(spark: SparkSession, files: list[str]) -> DataFrame:
    if not files:
        return local_rows(spark, [], BRONZE)
    return with_origin(spark.read.schema(spark_schema(PUSH_RECORD)).parquet(*files))


class TopicStream:
    """The push records on a topic, partition by partition in their order."""

    def __init__(self, spark: SparkSession, source: TopicSource) -> None:
        self._source = source
        self._options = client_options(spark, source)
        servers = sha256(",".join(sorted(source.bootstrap_servers.split(","))).encode()).hexdigest()[:12]
        self.name = f"topic-{source.topic}-{servers}"

    def start(self, spark: SparkSession, bounds: Bounds) -> DataFrame:
        """The stream of records from the topic's beginning on."""
        options = {
            "subscribe": self._source.topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(bounds.max_records),
            **fetch_options(spark, self._options),
        }
        return spark.readStream.format("kafka").options(**options).load()

    def waiting(self, spark: SparkSession, checkpoint: str, *, count: bool) -> Waiting:
        """Records behind the checkpoint's offsets, and those that are gone.

        Raises:
            TopicError: no broker answers, there is no such topic, it may not be read, or it is another one by now.
        """
        bounds = find_bounds(spark, self._source, self._options)
        done = read_offsets(spark, checkpoint, self._source.topic)
        for number, offset in done.items():
            if number not in bounds or bounds[number].end < offset:
                raise TopicError(
                    f"the topic {self._source.topic} was made anew since it was read last: its partition {number} was "
                    f"read up to offset {offset}, which it does not have; remove {checkpoint} to read it from its "
                    "beginning (what is in the tables is not counted again)"
                )
        spans = [(done.get(number, span.start), span) for number, span in bounds.items()]
        return Waiting(
            amount=sum(span.end - max(offset, span.start) for offset, span in spans),
            unit="records",
            lost=sum(max(0, span.start - offset) for offset, span in spans),
        )

    def batch(self, spark: SparkSession, checkpoint: str, frame: DataFrame, number: int) -> Batch:
        """The batch's records as push records."""
        return Batch(number=number, records=to_bronze(frame))


def open_stream(spark: SparkSession, source: Source) -> Stream:
    """The stream of a source.

    Raises:
        FleetError: there is no such source, or it cannot be asked.
    """
    return TopicStream(spark, source) if isinstance(source, TopicSource) else LandingStream(spark, source)


def checkpoint_id(spark: SparkSession, checkpoint: str) -> str | None:
    """The id that Spark gave to a checkpoint when it began it; None when it has not."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    path = jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/metadata")
    found = jvm.org.apache.spark.sql.execution.streaming.StreamMetadata.read(
        path, session.sessionState().newHadoopConf()
    )
    return str(found.get().id()) if found.isDefined() else None


def last_finished_batch(spark: SparkSession, checkpoint: str) -> int | None:
    """Number of the last batch that the checkpoint knows to be done; None when there is none."""
    jvm: Any = spark._jvm
    log = jvm.org.apache.spark.sql.execution.streaming.CommitLog(spark._jsparkSession, f"{checkpoint}/commits")
    found = log.getLatest()
    return int(found.get()._1()) if found.isDefined() else None


def read_offsets(spark: SparkSession, checkpoint: str, topic: str) -> dict[int, int]:
    """The offset up to which each partition of a topic has been read; empty for a new checkpoint."""
    if checkpoint_id(spark, checkpoint) is None:
        return {}
    finished = last_finished_batch(spark, checkpoint)
    if finished is None:
        return {}
    jvm: Any = spark._jvm
    log = jvm.org.apache.spark.sql.execution.streaming.OffsetSeqLog(spark._jsparkSession, f"{checkpoint}/offsets")
    offsets = json.loads(log.get(finished).get().offsets().apply(0).get().json())
    return {int(number): int(offset) for number, offset in offsets.get(topic, {}).items()}

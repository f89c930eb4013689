"""Answers on Spark: for topics, for large zones, for zones on other file systems, and on clusters."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TextIO

from pyspark.sql import SparkSession
from pyspark.storagelevel import StorageLevel
from rich.console import Console

from fleetgauge.fleet.engines import jobs
from fleetgauge.fleet.engines.questions import Question
from fleetgauge.fleet.errors import FleetError
from fleetgauge.fleet.report.form import Format
from fleetgauge.fleet.report.output import print_table
from fleetgauge.fleet.report.request import Counted, Finish, Request
from fleetgauge.fleet.report.spark_output import take_first, write_path, write_stream
from fleetgauge.fleet.report.tables import TABLES
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.source.topic.connector import connector_jars
from fleetgauge.fleet.source.topic.source import TopicSource
from fleetgauge.fleet.spark.errors import SPARK_ERRORS, what_failed
from fleetgauge.fleet.spark.session import SessionSettings, start_session
from fleetgauge.terminal.text import printable


@contextmanager
def on_spark(request: Request, selection: Selection, notes: Console, *, shown: bool) -> Iterator["OnSpark"]:
    """Starts Spark; turns its exceptions into one sentence.

    Raises:
        FleetError: Spark does not start, or a job fails.
    """
    try:
        yield OnSpark(start_session(_session(request, notes, progress=shown)), request, selection)
    except FleetError:
        raise
    except SPARK_ERRORS as error:
        raise FleetError(f"{request.title} of {request.source} failed in Spark: {what_failed(error)}") from error


def _session(request: Request, notes: Console, *, progress: bool) -> SessionSettings:
    def note(sentence: str) -> None:
        notes.print(printable(sentence), markup=False, highlight=False, soft_wrap=True)

    settings = SessionSettings(
        master=request.master or "local[*]", progress=progress, log_level=request.spark_log_level
    )
    if settings.is_remote or not isinstance(request.source, TopicSource):
        return settings
    return replace(settings, jars=connector_jars(request.kafka_jars, note=note))


@dataclass(frozen=True, slots=True)
class OnSpark:
    """The engine."""

    spark: SparkSession
    request: Request
    selection: Selection

    def progress(self) -> AbstractContextManager[None]:
        """Spark's own progress, per stage."""
        return nullcontext()

    def compute(self, request: Request, asked: Question, out: TextIO) -> Finish:
        """Computes the answer; Spark's workers keep a stream on disk until it is printed."""
        answer = jobs.answer(self.spark, asked, request.source, self.selection)
        frame = answer.frame

        def finish() -> Counted:
            if request.to.form is Format.TABLE:
                print_table(out, *first, form=form)
            elif request.to.output is None:
                write_stream(frame, request.to.form, out)
                frame.unpersist()
            return Counted(answer.rejects, answer.repeats)

        if request.to.form is Format.TABLE:
            form = TABLES[request.title].only(request.to.columns)
            first = take_first(frame, form, request.to.limit)
        elif request.to.output is not None:
            write_path(frame, request.to.form, request.to.output)
        else:
            # What was counted on the way, and what failed, is known before the first row leaves.
            frame.persist(StorageLevel.DISK_ONLY).count()
        return finish

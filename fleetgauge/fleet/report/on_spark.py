"""Answers on Spark: for topics, for zones that are large or elsewhere, and for clusters."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TextIO

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.storagelevel import StorageLevel
from rich.console import Console

from fleetgauge.fleet.engines import jobs
from fleetgauge.fleet.engines.questions import Question
from fleetgauge.fleet.errors import FleetError
from fleetgauge.fleet.report.form import Format
from fleetgauge.fleet.report.output import print_table
from fleetgauge.fleet.report.progress import show_progress
from fleetgauge.fleet.report.request import Computed, Counted, Request
from fleetgauge.fleet.report.spark_output import take_first, write_path, write_stream
from fleetgauge.fleet.report.tables import TABLES
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.source.topic.connector import connector_jars
from fleetgauge.fleet.source.topic.source import TopicSource
from fleetgauge.fleet.spark.errors import what_failed
from fleetgauge.fleet.spark.session import SessionSettings, start_session
from fleetgauge.terminal.text import printable


@contextmanager
def on_spark(request: Request, selection: Selection, notes: Console, *, shown: bool) -> Iterator["OnSpark"]:
    """Starts Spark; what it throws meanwhile becomes one sentence.

    Raises:
        FleetError: Spark does not start, or a job fails.
    """
    try:
        spark = start_session(_session(request, notes))
        yield OnSpark(spark, request, selection, notes, shown=shown)
    except FleetError:
        raise
    except (PySparkException, Py4JError) as error:
        raise FleetError(f"{request.title} of {request.source} failed in Spark: {what_failed(error)}") from error


def _session(request: Request, notes: Console) -> SessionSettings:
    def note(sentence: str) -> None:
        notes.print(printable(sentence), markup=False, highlight=False, soft_wrap=True)

    jars = connector_jars(request.kafka_jars, note=note) if isinstance(request.source, TopicSource) else ()
    return SessionSettings(master=request.master or "local[*]", log_level=request.spark_log_level, jars=jars)


class OnSpark:
    """The engine."""

    def __init__(
        self, spark: SparkSession, request: Request, selection: Selection, notes: Console, *, shown: bool
    ) -> None:
        self._spark = spark
        self._request = request
        self._selection = selection
        self._notes = notes
        self._shown = shown

    def progress(self) -> AbstractContextManager[None]:
        """A line about Spark's tasks."""
        return show_progress(self._spark, self._request.title, self._notes, enabled=self._shown)

    def compute(self, request: Request, asked: Question, out: TextIO) -> Computed:
        """The answer; a stream is kept by Spark's workers on disk until it is printed."""
        answer = jobs.answer(self._spark, asked, request.source, self._selection)
        frame = answer.frame

        def finish() -> None:
            if request.to.form is Format.TABLE:
                print_table(out, *first, form=form)
            elif request.to.output is None:
                write_stream(frame, request.to.form, out)
                frame.unpersist()

        if request.to.form is Format.TABLE:
            form = TABLES[request.title].only(request.to.columns)
            first = take_first(frame, form, request.to.limit)
        elif request.to.output is not None:
            write_path(frame, request.to.form, request.to.output)
        else:
            # What was counted on the way, and what failed, is known before the first row leaves.
            frame.persist(StorageLevel.DISK_ONLY).count()
        return Computed(finish, lambda: Counted(answer.rejects.total, answer.repeats.total))

"""One command from start to end: a session, the answer, its way out, and what was left out on the way."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TextIO, TypeAlias

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.storagelevel import StorageLevel
from rich.console import Console

from fleet.errors import FleetError
from fleet.jobs import Answer
from fleet.report.form import Format
from fleet.report.output import check_form, print_table
from fleet.report.progress import show_progress
from fleet.report.spark_output import take_first, write_path, write_stream
from fleet.report.tables import TABLES
from fleet.selection import Selection
from fleet.session import SessionSettings, start_session
from fleet.sources import Source
from fleet.spark_errors import what_failed
from fleet.topic.connector import connector_jars
from fleet.topic.source import TopicSource
from terminal.text import printable

Job: TypeAlias = Callable[[SparkSession, Source, Selection], Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an operator asked for.

    Attributes:
        title: the name of the command; also what the progress line says.
        source: the landing zone or topic.
        kafka_jars: jars of Spark's Kafka connector, or directories of them; without any a topic has them fetched.
        master: where Spark runs.
        form: what the answer is written as.
        output: directory to write to; None is stdout.
        limit: rows of a table.
        columns: of a table, as `--columns` names them; None is those that fit.
        spark_log_level: level of Spark's own log on stderr.
        show_progress: None shows it when stderr is a terminal.
    """

    title: str
    source: Source
    kafka_jars: tuple[str, ...]
    master: str
    form: Format
    output: str | None
    limit: int
    columns: str | None
    show_progress: bool | None
    spark_log_level: str

    def __post_init__(self) -> None:
        check_form(self.form, self.output, self.columns)


def run(request: Request, selection: Selection, job: Job, *, out: TextIO, notes: Console) -> None:
    """Answers a request.

    Args:
        request: what was asked.
        selection: of which pushes.
        job: what computes the answer.
        out: where rows go.
        notes: where progress goes, and one line each on repeats and on pushes that were set aside.

    Raises:
        FleetError: with one sentence on what is wrong, whatever Spark made of it.
    """
    with _explained(request):
        spark = start_session(_session(request, notes))
        with _progress(spark, request, notes):
            TABLES[request.title].only(request.columns)  # what is no column is refused before anything is read
            answer = job(spark, request.source, selection)
            finish = _compute(request, answer, out)
        finish()
        _note(notes, answer)


def summarise(request: Request, selection: Selection, jobs: Mapping[str, Job], *, out: TextIO, notes: Console) -> None:
    """Answers several questions in one session: their tables one after the other.

    Args:
        request: what was asked; with an `output` every row is also written there, to a directory of the question's
            name, in the request's form.
        selection: of which pushes.
        jobs: what computes the answers, by the names of their commands.
        out: where tables go.
        notes: as for `run`.

    Raises:
        FleetError: with one sentence on what is wrong, whatever Spark made of it.
    """
    if request.form is not Format.TABLE and request.output is None:
        raise FleetError(f"the tables of a {request.title} go to the terminal: with --format add --output PATH")
    with _explained(request):
        spark = start_session(_session(request, notes))
        for number, (title, job) in enumerate(jobs.items()):
            with _progress(spark, request, notes):
                answer, finish = _part(spark, replace(request, title=title), selection, job, out)
            out.write(f"{chr(10) if number else ''}{title}\n")
            finish()
        _note(notes, answer)


def _part(
    spark: SparkSession, request: Request, selection: Selection, job: Job, out: TextIO
) -> tuple[Answer, Callable[[], None]]:
    answer = job(spark, request.source, selection)
    table = replace(request, form=Format.TABLE, output=None)
    if request.output is None:
        return answer, _compute(table, answer, out)
    kept = replace(answer, frame=answer.frame.persist(StorageLevel.DISK_ONLY))
    _compute(replace(request, output=f"{request.output.rstrip('/')}/{request.title}"), kept, out)
    finish = _compute(table, kept, out)
    kept.frame.unpersist()
    return answer, finish


def _progress(spark: SparkSession, request: Request, notes: Console) -> AbstractContextManager[None]:
    shown = notes.is_terminal if request.show_progress is None else request.show_progress
    return show_progress(spark, request.title, notes, enabled=shown)


def _session(request: Request, notes: Console) -> SessionSettings:
    def note(sentence: str) -> None:
        notes.print(printable(sentence), markup=False, highlight=False, soft_wrap=True)

    jars = connector_jars(request.kafka_jars, note=note) if isinstance(request.source, TopicSource) else ()
    return SessionSettings(master=request.master, log_level=request.spark_log_level, jars=jars)


@contextmanager
def _explained(request: Request) -> Iterator[None]:
    try:
        yield
    except FleetError:
        raise
    except (PySparkException, Py4JError) as error:
        raise FleetError(f"{request.title} of {request.source} failed in Spark: {what_failed(error)}") from error


def _compute(request: Request, answer: Answer, out: TextIO) -> Callable[[], None]:
    """Computes the answer and gives back what prints it, so that progress is gone from the terminal by then."""
    if request.form is Format.TABLE:
        form = TABLES[request.title].only(request.columns)
        rows, total = take_first(answer.frame, form, request.limit)
        return lambda: print_table(out, rows, form, total)
    if request.output is not None:
        write_path(answer.frame, request.form, request.output)
        return lambda: None
    # Kept by Spark's workers on disk: what was counted on the way is known before the first row leaves.
    kept = answer.frame.persist(StorageLevel.DISK_ONLY)
    kept.count()

    def stream() -> None:
        write_stream(kept, request.form, out)
        kept.unpersist()

    return stream


def _note(notes: Console, answer: Answer) -> None:
    rejects = answer.rejects.total
    if answer.repeats:
        notes.print(f"{_pushes(answer.repeats, 'repeated ')} counted once", highlight=False)
    if rejects:
        notes.print(f"{_pushes(rejects)} set aside as malformed: fleet rejects says why", highlight=False)


def _pushes(count: int, what: str = "") -> str:
    return f"1 {what}push was" if count == 1 else f"{count:,} {what}pushes were"

"""A command from start to end: engine, answer, output, and the counts of rejected and repeated pushes.

Both engines run the functions of `fleet.engines.questions`; `fleet.engines.choice` chooses.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TextIO

from rich.console import Console

from fleetgauge.fleet.engines.choice import EngineName, Kind, Work, choose
from fleetgauge.fleet.engines.questions import Question
from fleetgauge.fleet.errors import FleetError
from fleetgauge.fleet.report.form import Format
from fleetgauge.fleet.report.in_process import InProcess
from fleetgauge.fleet.report.request import Counted, Engine, Request
from fleetgauge.fleet.source.landing import Zone, find_zone
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.source.topic.source import TopicSource
from fleetgauge.fleet.tables.paths import local_path


def run(request: Request, selection: Selection, asked: Question, *, out: TextIO, notes: Console) -> None:
    """Answers a request.

    Args:
        request: what was asked.
        selection: of which pushes.
        asked: the question.
        out: where rows go.
        notes: where progress goes, and one line each on repeats and on pushes that were set aside.

    Raises:
        FleetError: with one sentence on what is wrong, whatever Spark made of it.
    """
    with _engine(request, selection, notes) as engine:
        with engine.progress():
            finish = engine.compute(request, asked, out)
        _note(notes, finish())


def summarise(
    request: Request, selection: Selection, parts: Mapping[str, Question], *, out: TextIO, notes: Console
) -> None:
    """Answers several questions about the same pushes, as one table after the other.

    Args:
        request: what was asked; with an `output` every row is also written there, to a directory of the question's
            name, in the request's form.
        selection: of which pushes.
        parts: the questions by the names of their commands.
        out: where tables go.
        notes: as for `run`.

    Raises:
        FleetError: with one sentence on what is wrong, whatever Spark made of it.
    """
    to = request.to
    if to.form is not Format.TABLE and to.output is None:
        raise FleetError(f"a {request.title} prints several tables: with --format, add --output PATH")
    with _engine(request, selection, notes) as engine:
        for number, (title, asked) in enumerate(parts.items()):
            table = replace(request, title=title, to=replace(to, form=Format.TABLE, output=None))
            with engine.progress():
                if to.output is not None:
                    files = replace(to, output=f"{to.output.rstrip('/')}/{title}")
                    engine.compute(replace(request, title=title, to=files), asked, out)()
                finish = engine.compute(table, asked, out)
            out.write(f"{chr(10) if number else ''}{title}\n")
            counted = finish()
        _note(notes, counted)


@contextmanager
def _engine(request: Request, selection: Selection, notes: Console) -> Iterator[Engine]:
    shown = notes.is_terminal if request.show_progress is None else request.show_progress
    zone = _zone_in_process(request, selection)
    if zone is not None:
        yield InProcess(zone, selection, request.title, notes, shown=shown)
        return
    try:
        from fleetgauge.fleet.report.on_spark import on_spark
    except ModuleNotFoundError as error:
        raise FleetError(
            f"{error.name} is not installed, and answers from {request.source} need PySpark: "
            "pip install 'fleetgauge[spark]'"
        ) from error
    with on_spark(request, selection, notes, shown=shown) as engine:
        yield engine


def _zone_in_process(request: Request, selection: Selection) -> Zone | None:
    """The landing zone, if this process reads it; None if Spark answers."""
    source = request.source
    if isinstance(source, TopicSource) or local_path(source) is None:
        choose(Work(kind=Kind.QUESTION, out_of_reach=f"{source}"), request.engine)
        return None
    if request.engine is EngineName.SPARK:
        return None  # which lists the zone by itself
    zone = find_zone(source, selection)
    engine = choose(Work(kind=Kind.QUESTION, amount=zone.size_bytes), request.engine)
    return zone if engine is EngineName.PROCESS else None


def _note(notes: Console, counted: Counted) -> None:
    if counted.repeats:
        notes.print(f"{_pushes(counted.repeats, 'repeated ')} counted once", highlight=False)
    if counted.rejects:
        notes.print(
            f"{_pushes(counted.rejects)} rejected as malformed: fleet rejects shows the reasons", highlight=False
        )


def _pushes(count: int, what: str = "") -> str:
    return f"1 {what}push was" if count == 1 else f"{count:,} {what}pushes were"

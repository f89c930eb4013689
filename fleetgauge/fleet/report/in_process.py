"""Answers in this process: pyarrow reads the zone, and rows are written as they come."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from fleetgauge.fleet.engines.questions import Pushes, Question, answer
from fleetgauge.fleet.report.form import Format
from fleetgauge.fleet.report.output import print_table, take_first, write_path, write_stream
from fleetgauge.fleet.report.request import Counted, Finish, Request
from fleetgauge.fleet.report.tables import TABLES
from fleetgauge.fleet.source.landing import Zone
from fleetgauge.fleet.source.selection import Selection


class InProcess:
    """The engine.

    Args:
        zone: the files.
        selection: of which pushes.
        title: what is being done, for the operator.
        notes: where progress goes.
        shown: False shows none.
    """

    def __init__(self, zone: Zone, selection: Selection, title: str, notes: Console, *, shown: bool) -> None:
        self._zone = zone
        self._selection = selection
        self._title = title
        self._notes = notes
        self._shown = shown
        self._progress: Progress | None = None
        self._pushes: Pushes | None = None
        self._rows = 0

    @contextmanager
    def progress(self) -> Iterator[None]:
        """Shows a line about the files that are read; clears it at the end."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} files"),
            TextColumn("{task.fields[rows]:,} rows read"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._notes, transient=True, disable=not self._shown) as self._progress:
            self._rows = 0
            self._progress.add_task(self._title, total=max(1, len(self._zone.files)), rows=0)
            yield
        self._progress = None

    def compute(self, request: Request, asked: Question, out: TextIO) -> Finish:
        """Computes the answer; a stream is read while it is printed."""
        if self._pushes is None:
            self._pushes = Pushes(self._zone, self._selection, self._read)
        computed = answer(asked, self._pushes)

        def finish() -> Counted:
            if request.to.form is Format.TABLE:
                print_table(out, *first, form=form)
            elif request.to.output is None:
                write_stream(computed.rows, request.to.form, out)
            return Counted(computed.rejects.total, computed.repeats)

        if request.to.form is Format.TABLE:
            form = TABLES[request.title].only(request.to.columns)
            first = take_first(computed.rows, form, request.to.limit)
        elif request.to.output is not None:
            write_path(computed.rows, request.to.form, request.to.output)
        return finish

    def _read(self, rows: int) -> None:
        self._rows += rows
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], advance=1, rows=self._rows)

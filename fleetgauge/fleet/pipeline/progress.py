"""Progress of a run as one line on stderr: current step, files or records done of those known, rows, and time left."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from fleetgauge.fleet.pipeline.batch import BatchReport
from fleetgauge.fleet.pipeline.source import NewInput


class RunProgress:
    """The progress line; cleared at the end.

    Args:
        console: where to; nothing of it may be piped on as a result.
        enabled: False shows nothing.
    """

    def __init__(self, console: Console, *, enabled: bool) -> None:
        self.enabled = enabled
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} {task.fields[unit]}"),
            TextColumn("{task.fields[pushes]:,} pushes, {task.fields[points]:,} points"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=console,
            transient=True,
            disable=not enabled,
        )
        self._task = self._progress.add_task("starting", total=0, unit="files", pushes=0, points=0)
        self._pushes = self._points = 0
        self._batch = ""

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def expect(self, new_input: NewInput) -> None:
        """Sets the amount of work."""
        self._progress.update(self._task, total=new_input.amount, unit=new_input.unit)

    def stage(self, what: str) -> None:
        """Sets the current step, usually a table."""
        self._progress.update(self._task, description=f"{self._batch}{what}")

    def begin(self, number: int | None) -> None:
        """Starts a batch; None after the last one."""
        self._batch = "" if number is None else f"batch {number}: "

    def done(self, report: BatchReport, amount: int) -> None:
        """Counts a finished batch of so many files or records."""
        self._pushes += report.pushes
        self._points += report.points
        self._progress.update(self._task, advance=amount, pushes=self._pushes, points=self._points)

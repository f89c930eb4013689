"""Progress of Spark's jobs as one line on stderr: tasks done of those known, and rows read so far."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

_POLL_S = 0.2


@contextmanager
def show_progress(spark: SparkSession, title: str, console: Console, *, enabled: bool) -> Iterator[None]:
    """Shows a line about the jobs that Spark runs meanwhile; it is gone afterwards.

    Args:
        spark: the session whose jobs are watched.
        title: what is being done, for the operator.
        console: where to; nothing of it may be piped on as a result.
        enabled: False shows nothing.
    """
    if not enabled:
        yield
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} tasks"),
        TextColumn("{task.fields[rows]:,} rows read"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        watcher = _Watcher(spark, progress, progress.add_task(title, total=1, completed=0, rows=0))
        watcher.start()
        try:
            yield
        finally:
            watcher.stop()


class _Watcher:
    """Polls Spark's status in a thread of its own until it is stopped."""

    def __init__(self, spark: SparkSession, progress: Progress, task: TaskID) -> None:
        self._tally = Tally(spark)
        self._progress = progress
        self._task = task
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spark-progress", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stopped.wait(_POLL_S):
            try:
                self._tally.refresh()
            except (Py4JError, OSError):  # the JVM may go away at any moment (Ctrl-C); progress is a courtesy
                return
            completed, total, rows = self._tally.completed_tasks, self._tally.tasks, self._tally.rows_read
            self._progress.update(self._task, completed=completed, total=max(total, 1), rows=rows)


class Tally:
    """Tasks and rows of the stages seen so far, running and finished.

    Attributes:
        tasks: tasks of all stages seen; grows as Spark plans further stages.
        completed_tasks: those that are done.
        rows_read: input rows of all stages, shuffled ones not counted; finished tasks only.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._store: Any = spark.sparkContext._jsc.sc().statusStore()
        self._earlier = frozenset(self._stages_of_all_jobs())
        self._stages: dict[int, tuple[int, int, int]] = {}
        self.tasks = self.completed_tasks = self.rows_read = 0

    def refresh(self) -> None:
        """Looks at the stages of all jobs since this tally was made."""
        for stage in self._stages_of_all_jobs() - self._earlier:
            known = self._look_at(stage)
            if known is not None:
                self._stages[stage] = known
        totals = list(self._stages.values())
        self.tasks, self.completed_tasks, self.rows_read = (
            (sum(column) for column in zip(*totals, strict=True)) if (totals) else (0, 0, 0)
        )

    def _stages_of_all_jobs(self) -> set[int]:
        jobs = (self._tracker.getJobInfo(job) for job in self._tracker.getJobIdsForGroup(None))
        return {stage for job in jobs if job is not None for stage in job.stageIds}

    def _look_at(self, stage: int) -> tuple[int, int, int] | None:
        """(tasks, completed, rows read); None for a stage that was skipped or is not yet known."""
        try:
            data = self._store.lastStageAttempt(stage)
        except Py4JError:  # not planned yet, or evicted
            return None
        status = data.status().toString()
        if status in ("SKIPPED", "PENDING"):
            return None
        return int(data.numTasks()), int(data.numCompleteTasks()), int(data.inputRecords())

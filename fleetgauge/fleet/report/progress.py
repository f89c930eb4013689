"""Progress of Spark's jobs as one line on stderr: tasks done of those known so far."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote
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
    if not enabled or is_remote():  # a Spark Connect server does not let its jobs be watched so
        yield
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} tasks"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task, stopped = progress.add_task(title, total=1, completed=0), threading.Event()
        watched = (Tally(spark), progress, task, stopped)
        watcher = threading.Thread(target=_watch, args=watched, name="spark-progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            stopped.set()
            watcher.join(timeout=5)


def _watch(tally: "Tally", progress: Progress, task: TaskID, stopped: threading.Event) -> None:
    """Moves the progress line until it is stopped."""
    while not stopped.wait(_POLL_S):
        try:
            tally.refresh()
        except (Py4JError, OSError):  # the JVM may go away at any moment (Ctrl-C); progress is a courtesy
            return
        progress.update(task, completed=tally.completed_tasks, total=max(tally.tasks, 1))


class Tally:
    """Tasks of the stages that have begun since, running and finished.

    Attributes:
        tasks: of all these stages; grows as Spark begins further ones.
        completed_tasks: those that are done.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._earlier = frozenset(self._stages_of_all_jobs())
        self._stages: dict[int, tuple[int, int]] = {}
        self.tasks = self.completed_tasks = 0

    def refresh(self) -> None:
        """Looks at the stages of all jobs since this tally was made."""
        for stage in self._stages_of_all_jobs() - self._earlier:
            known = self._tracker.getStageInfo(stage)
            # Not yet planned, or forgotten; one without any task has not begun, or is skipped.
            if known is not None and known.numActiveTasks + known.numCompletedTasks > 0:
                self._stages[stage] = (known.numTasks, known.numCompletedTasks)
        self.tasks = sum(tasks for tasks, _ in self._stages.values())
        self.completed_tasks = sum(completed for _, completed in self._stages.values())

    def _stages_of_all_jobs(self) -> set[int]:
        jobs = (self._tracker.getJobInfo(job) for job in self._tracker.getJobIdsForGroup(None))
        return {stage for job in jobs if job is not None for stage in job.stageIds}

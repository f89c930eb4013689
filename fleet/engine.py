"""What runs the tasks of a job: this process, or Spark."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeVar

from fleet.workers import forget_archives

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Part = TypeVar("Part")
Made = TypeVar("Made")


class Engine(Protocol):
    """Runs tasks.

    Attributes:
        parts: how many parts a job is best divided into.
    """

    @property
    def parts(self) -> int: ...

    def map(self, task: Callable[[Part], Made], parts: Sequence[Part]) -> Iterable[Made]:
        """What a task makes of each part, which may be on another machine: task, parts and results are pickled."""


class InProcess:
    """One part after the other, here."""

    parts = 1

    def map(self, task: Callable[[Part], Made], parts: Sequence[Part]) -> Iterator[Made]:
        """What a task makes of each part."""
        return map(task, parts)


class OnSpark:
    """Side by side, on Spark's executors.

    Args:
        start: gives the session, once it is needed.
    """

    def __init__(self, start: Callable[[], "SparkSession"]) -> None:
        self._start = start

    @cached_property
    def spark(self) -> "SparkSession":
        """The session."""
        return self._start()

    @property
    def parts(self) -> int:
        """A few for each core, so that they end together."""
        return 4 * self.spark.sparkContext.defaultParallelism

    def map(self, task: Callable[[Part], Made], parts: Sequence[Part]) -> Iterable[Made]:
        """What a task makes of each part."""
        if not parts:
            return []
        found: list[Made] = self.spark.sparkContext.parallelize(parts, len(parts)).map(_Prepared(task)).collect()
        return found


class _Prepared:
    """A task on an executor."""

    def __init__(self, task: Callable[[Part], Made]) -> None:
        self._task = task

    def __call__(self, part: Part) -> Made:
        forget_archives()
        return self._task(part)

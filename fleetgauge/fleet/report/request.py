"""A request for an answer, and the interface of the engines."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TextIO

from fleetgauge.fleet.engines.choice import EngineName
from fleetgauge.fleet.engines.questions import Question
from fleetgauge.fleet.report.form import Output
from fleetgauge.fleet.report.tables import TABLES
from fleetgauge.fleet.source.topic.source import TopicSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Parameters of a request.

    Attributes:
        title: the name of the command; also what the progress line says.
        source: the landing zone or topic.
        kafka_jars: jars of Spark's Kafka connector, or directories of them; without any a topic has them fetched.
        engine: the one asked for; None leaves it to `engines.choice`.
        master: where Spark runs; None is this machine.
        to: where the answer is written, and as what.
        spark_log_level: level of Spark's own log on stderr.
        show_progress: None shows it when stderr is a terminal.
    """

    title: str
    source: TopicSource | str
    kafka_jars: tuple[str, ...]
    engine: EngineName | None
    master: str | None
    to: Output
    show_progress: bool | None
    spark_log_level: str

    def __post_init__(self) -> None:
        self.to.check()
        if self.title in TABLES:
            TABLES[self.title].only(self.to.columns)  # what is no column is refused before anything is read


class Counted(NamedTuple):
    """Number of rejected pushes, and of pushes that were received more than once and count once."""

    rejects: int
    repeats: int


Finish = Callable[[], Counted]
"""Prints the part of an answer that goes to stdout, once progress is cleared from the terminal."""


class Engine(Protocol):
    """An engine that computes answers."""

    def progress(self) -> AbstractContextManager[None]:
        """Shows progress during the computation."""

    def compute(self, request: Request, asked: Question, out: TextIO) -> Finish:
        """Computes the answer as far as possible before it is printed."""

"""Choice of the engine for a command: this process, or Spark. Every command calls `choose`; no other code decides."""

import enum
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from fleetgauge.fleet.errors import WrongOptionError

_MIB: Final = 1024 * 1024


class EngineName(enum.StrEnum):
    """Values of `--engine`."""

    PROCESS = "process"
    SPARK = "spark"


@enum.unique
class Kind(enum.Enum):
    """Kinds of work; the value is the amount up to which this machine's processes are as fast as Spark on a machine.

    Attributes:
        TABLES: pushes into the fleet tables, by their files [B]: of real clients some fifty million points, a minute
            or two on two CPUs.
        QUESTION: a question to a landing zone, by its files [B].
        REPLAY: rates under other quotas, by rows of `windows`.
    """

    TABLES = 500 * _MIB
    QUESTION = 512 * _MIB
    REPLAY = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Work to be computed.

    Attributes:
        kind: of work.
        amount: amount of work, in the unit of its kind.
        out_of_reach: input that this process cannot read, such as `topics`; None if it can read all.
    """

    kind: Kind
    amount: int = 0
    out_of_reach: str | None = None


def choose(work: Work, asked: EngineName | None) -> EngineName:
    """The engine: the one that was asked for, or else this process, unless the work is out of its reach, or large where
    PySpark is installed.

    >>> choose(Work(kind=Kind.QUESTION, amount=10_000), None), choose(Work(kind=Kind.TABLES, amount=10**9), None)
    (<EngineName.PROCESS: 'process'>, <EngineName.SPARK: 'spark'>)

    Raises:
        WrongOptionError: this process was asked for and cannot read it.
    """
    if work.out_of_reach is not None:
        if asked is EngineName.PROCESS:
            raise WrongOptionError(f"--engine process cannot read {work.out_of_reach}: omit --engine to use Spark")
        return EngineName.SPARK
    if asked is not None:
        return asked
    is_large = work.amount > work.kind.value and find_spec("pyspark") is not None
    return EngineName.SPARK if is_large else EngineName.PROCESS

"""A push that its destination refused for good, as it is kept: the values; `dead_letters` is the table."""

from dataclasses import dataclass
from pathlib import Path

from push_log.embedded.settings import MIB
from telemetry.push_record import PushRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSettings:
    """Where the dead letters are kept, and how many.

    Attributes:
        path: the database's file.
        retention_bytes: what they may take (key `dead.letter.retention.bytes`) [B].
        retention_ms: how long one is kept after it was refused last (key `dead.letter.retention.ms`) [ms].
    """

    path: Path
    retention_bytes: int = 256 * MIB
    retention_ms: int = 30 * 24 * 3_600_000

    def __post_init__(self) -> None:
        if self.retention_bytes < MIB or self.retention_ms < 1:
            raise ValueError(f"dead letters need a MiB of room at least, and some time: {self}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """What is known of a refused push without reading it.

    Attributes:
        id: a number that grows with every letter.
        exporter: whose destination refused it.
        reason: a short stable word.
        detail: what the destination said.
        refused_at: when it did so last [us since the epoch, UTC].
        times: how often it has, replays too.
        replay_asked: a replay was asked for, and has not come to an end.
    """

    id: int
    exporter: str
    reason: str
    detail: str
    refused_at: int
    times: int
    replay_asked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter(Letter):
    """A push that was refused; `record` is the push, whole."""

    record: PushRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableLetter(Letter):
    """One whose push is damaged, so that it can only be dropped; `problem` says what is wrong with it."""

    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterStats:
    """An exporter's dead letters.

    Attributes:
        letters: there now.
        bytes: their metrics, decompressed [B].
        oldest_refused_at: when the first of them was refused [us since the epoch]; None when there is none.
        replayed: went since their push was delivered after all, over the table's whole life, as all that follow.
        dropped: went since an operator said so.
        lost_by_bytes: went for want of room in the table.
        lost_by_age: went since they were too old.
    """

    letters: int = 0
    bytes: int = 0
    oldest_refused_at: int | None = None
    replayed: int = 0
    dropped: int = 0
    lost_by_bytes: int = 0
    lost_by_age: int = 0

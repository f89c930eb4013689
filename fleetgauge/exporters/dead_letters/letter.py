"""The values of the dead letters: pushes that a destination rejects permanently. `store` has the table."""

from dataclasses import dataclass
from pathlib import Path

from fleetgauge.push_log.embedded.settings import MIB
from fleetgauge.telemetry.push_record import PushRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSettings:
    """Location and bounds of the dead letters.

    Attributes:
        path: the database's file.
        retention_bytes: maximum size of all letters (key `dead.letter.retention.bytes`) [B].
        retention_ms: how long a letter is kept after its last rejection (key `dead.letter.retention.ms`) [ms].
    """

    path: Path
    retention_bytes: int = 256 * MIB
    retention_ms: int = 30 * 24 * 3_600_000

    def __post_init__(self) -> None:
        if self.retention_bytes < MIB or self.retention_ms < 1:
            raise ValueError(f"dead letters need at least 1 MiB of space and a positive age: {self}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A rejected push without the push itself.

    Attributes:
        id: a number that grows with every letter.
        exporter: the exporter whose destination rejected it.
        reason: a short stable word.
        detail: the destination's text.
        refused_at: time of the last rejection [us since the epoch, UTC].
        times: number of rejections, including those of replays.
        replay_asked: a replay was requested and has not ended.
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
    """A rejected push; `record` is the whole push."""

    record: PushRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableLetter(Letter):
    """A letter whose push is damaged, so that it can only be dropped; `problem` is the reason."""

    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterStats:
    """Counts of an exporter's dead letters.

    Attributes:
        letters: number of letters now.
        bytes: their decompressed metrics [B].
        oldest_refused_at: the earliest rejection among them [us since the epoch]; None if there are no letters.
        replayed: letters whose push a replay delivered, since the table was made, as all that follow.
        dropped: letters that an operator deleted.
        lost_by_bytes: letters deleted for lack of room in the table.
        lost_by_age: letters deleted for their age.
    """

    letters: int = 0
    bytes: int = 0
    oldest_refused_at: int | None = None
    replayed: int = 0
    dropped: int = 0
    lost_by_bytes: int = 0
    lost_by_age: int = 0

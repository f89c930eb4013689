"""The settings of the embedded push log: the home of their defaults, checked when they are made."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PushLogSettings:
    """What an operator chooses for the embedded push log. Sizes are what the files take on the disk.

    Attributes:
        dir: where segments, cursors and the writer's lock lie; made when it is missing.
        segment_bytes: a segment of this size is sealed and the next one begun [B].
        segment_ms: a segment that took its first record this long ago is sealed too [ms], so that age can drop it.
        retention_bytes: beyond this the oldest sealed segment goes, read or not [B].
        retention_ms: a sealed segment whose last record is older goes, read or not [ms].
        flush: `os` survives the end of the process at any moment, `fsync` also that of the machine.
        min_free_bytes: with less free space on the disk, pushes are refused [B]; 0 switches the check off.
    """

    dir: Path
    segment_bytes: int = 64 * MIB
    segment_ms: int = 3_600_000
    retention_bytes: int = 4096 * MIB
    retention_ms: int = 7 * 24 * 3_600_000
    flush: Literal["os", "fsync"] = "os"
    min_free_bytes: int = 64 * MIB

    def __post_init__(self) -> None:
        for name in ("segment_bytes", "segment_ms", "retention_bytes", "retention_ms"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")
        if self.min_free_bytes < 0:
            raise ValueError(f"min_free_bytes must not be negative: {self.min_free_bytes}")
        if self.flush not in ("os", "fsync"):
            raise ValueError(f"flush must be os or fsync, not {self.flush!r}")

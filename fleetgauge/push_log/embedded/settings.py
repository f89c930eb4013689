"""The settings of the embedded push log with their defaults and checks."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PushLogSettings:
    """Settings of the embedded push log. Sizes are file sizes.

    Attributes:
        dir: the directory of segments, cursors and the writer's lock; created if missing.
        segment_bytes: size at which a segment is sealed and the next one opened [B].
        segment_ms: a segment is also sealed this long after its first record [ms], so that it can expire.
        retention_bytes: beyond this size the oldest sealed segment is deleted, delivered or not [B].
        retention_ms: a segment is deleted this long after it was sealed, delivered or not [ms].
        flush: `os` survives a crash of the process, `fsync` also one of the machine.
        min_free_bytes: with less free disk space, pushes are refused [B]; 0 disables the check.
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

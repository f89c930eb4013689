"""Results of a run, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fleetgauge.fleet.pipeline.batch import BatchReport
from fleetgauge.fleet.pipeline.side_rows import SideReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Rows that the run wrote to a table, and the table's size now."""

    rows_written: int
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """Results of a run.

    Attributes:
        source: what was read.
        tables: root of the tables.
        took_s: from the start of Spark on [s].
        batches: what each held.
        offsets: samples of consumer groups that were read.
        traffic: rows of gateways that were read.
        lost: records that retention took from a topic before they were read.
        changed: files that are of another size than when they were read.
        days: days of receipt that the gold tables were computed anew for.
        sizes: of silver and gold tables, once there was anything to do.
        is_judged_anew: nothing was new but the rules, and the verdicts are theirs now.
    """

    source: str
    tables: str
    took_s: float
    batches: Sequence[BatchReport]
    offsets: SideReport = field(default_factory=SideReport)
    traffic: SideReport = field(default_factory=SideReport)
    lost: int = 0
    changed: Sequence[str] = ()
    days: int = 0
    sizes: Mapping[str, Size] = field(default_factory=dict)
    is_judged_anew: bool = False

    @property
    def is_news(self) -> bool:
        """True if the run had anything to do."""
        return bool(self.batches) or self.offsets.files + self.traffic.files > 0 or self.days > 0

    def total(self, name: str) -> int:
        """Sum over the batches of `files`, `pushes`, `points` or `repeats`."""
        return sum(getattr(batch, name) for batch in self.batches)

    @property
    def rejects(self) -> dict[str, int]:
        """Rejected pushes and files by reason."""
        counts = self.offsets.rejects + self.traffic.rejects
        for batch in self.batches:
            counts.update(batch.rejects)
        return dict(counts.most_common())

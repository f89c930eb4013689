"""Landing zones as `fleet run` reads them: what is new, cut into batches."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from pyarrow.fs import FileSystem

from fleetgauge.fleet.engines.engine import MAX_BAD_FILES, Batch
from fleetgauge.fleet.errors import LandingError, no_landing_zone
from fleetgauge.fleet.pipeline.ledger import Ledger, Part, Plan, day_of
from fleetgauge.fleet.source.topic.source import Source, TopicSource
from fleetgauge.fleet.source.zone_files import FOLDERS_WITHOUT_PUSHES, LOCAL, has_pushes, list_files
from fleetgauge.fleet.tables.paths import plain_path, qualified, without_parameters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_BATCH_BYTES: Final = 256 * 1024 * 1024
"""Parquet of a landing zone that one batch reads on Spark [B], unless a number of files is given: of real clients some
twenty million data points, whose payloads are twenty times as large, and pass through a shuffle."""

MAX_BATCH_BYTES_IN_PROCESS: Final = 16 * 1024 * 1024
"""The same in this process, which holds a batch's payloads in memory."""

MAX_BATCH_RECORDS: Final = 2_000_000
"""Records of a topic that one batch reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much one batch reads at most.

    Attributes:
        max_files: of a landing zone; None goes by their bytes alone.
        max_bytes: of these files [B]; one that is larger is a batch.
        max_records: of a topic.
    """

    max_files: int | None = None
    max_bytes: int = MAX_BATCH_BYTES
    max_records: int = MAX_BATCH_RECORDS


@dataclass(frozen=True, slots=True, kw_only=True)
class NewInput:
    """What a source holds that was not yet read.

    Attributes:
        amount: files or records.
        unit: which of them.
        lost: records that retention has taken before they were read.
        changed: files that are of another size than when they were read.
    """

    amount: int
    unit: str
    lost: int = 0
    changed: tuple[str, ...] = ()


class LandingSource:
    """A landing zone's files, in the order of their paths.

    Args:
        start: gives the session, which only a zone without `system` needs here.
        source: its path or URI.
        ledger: what was read of it.
        system: reads it in this process; None where only Spark does.

    Attributes:
        root: its path.
        beside: by folder without pushes, the sizes [B] of its files by their paths below the zone.

    Raises:
        LandingError: there is no such directory, or it cannot be listed.
    """

    def __init__(
        self, start: Callable[[], "SparkSession"], source: str, ledger: Ledger, system: FileSystem | None = LOCAL
    ) -> None:
        self.root = plain_path(qualified(without_parameters(source)))
        self.system = system
        sizes = list_files(source, start, system)
        if "" in sizes:
            raise LandingError(no_landing_zone(source))
        self.beside = {
            folder: {path: size for path, size in sizes.items() if path.startswith(f"{folder}/")}
            for folder in FOLDERS_WITHOUT_PUSHES
        }
        self._sizes = {path: size for path, size in sizes.items() if has_pushes(path)}
        self._ledger = ledger

    def new_input(self) -> NewInput:
        """New files, and those that have changed."""
        known = self._ledger.read_to
        changed = [f"{self.root}/{path}" for path, size in self._sizes.items() if known.get(path, size) != size]
        return NewInput(amount=len(self._sizes.keys() - known), unit="files", changed=tuple(sorted(changed)))

    def bytes_to_read(self) -> int:
        """Size of the files that are new, or of a batch that was cut off [B]."""
        begun = {part.path for plan in self._ledger.unfinished() for part in plan.parts}
        return sum(size for path, size in self._sizes.items() if path in begun or path not in self._ledger.read_to)

    def cut(self, bounds: Bounds) -> Iterator[list[Part]]:
        """New files by number and bytes."""
        return cut_files(self._sizes, self._ledger, bounds)

    def batch(self, plan: Plan) -> Batch:
        """Its files.

        Raises:
            LandingError: many of them are there no more.
        """
        unfit = {f"{self.root}/{part.path}": said for part in plan.parts if (said := self._fault(part))}
        if len(unfit) > MAX_BAD_FILES:
            raise LandingError(
                f"{len(unfit):,} files of a batch that was begun are not in {self.root} as they were, "
                f"{next(iter(unfit))} among them: put them back, and run again"
            )
        files = tuple(f"{self.root}/{part.path}" for part in plan.parts)
        return Batch(number=plan.number, files=files, system=self.system or LOCAL, unfit=unfit)

    def check_day(self, day: date) -> None:
        """Raises LandingError unless every file of a day that was read is there as it was."""
        of_day = {path: size for path, size in self._ledger.read_to.items() if day_of(path) == day}
        if not of_day:
            raise LandingError(
                f"no file of {day} was read from {self.root}: --redecode takes a day of receipt (UTC), as the "
                "directories of a landing zone are named"
            )
        if other := [path for path, size in of_day.items() if self._sizes.get(path) != size]:
            raise LandingError(
                f"{len(other):,} of {len(of_day):,} files of {day} are not in {self.root} as they were read, "
                f"{other[0]} among them: --redecode needs them all; nothing was changed"
            )

    def _fault(self, part: Part) -> str | None:
        size = self._sizes.get(part.path)
        if size is None:
            return "the file was taken away before it was read"
        if size != part.end:
            return f"the file has changed before it was read: it had {part.end} B, and has {size} B"
        return None


def cut_files(sizes: Mapping[str, int], ledger: Ledger, bounds: Bounds) -> Iterator[list[Part]]:
    """New files in the order of their paths, none parted; what was read stays read, whatever its size is by now."""
    batch: list[Part] = []
    size_bytes = 0
    for path in sorted(sizes.keys() - ledger.read_to):
        part = Part(path=path, begin=0, end=sizes[path])
        if batch and (len(batch) == bounds.max_files or size_bytes + part.end > bounds.max_bytes):
            yield batch
            batch, size_bytes = [], 0
        batch.append(part)
        size_bytes += part.end
    if batch:
        yield batch


def source_name(source: Source) -> str:
    """Names a source among others, also in later runs."""
    if isinstance(source, TopicSource):
        servers = ",".join(sorted(source.bootstrap_servers.split(",")))
        return f"topic-{source.topic}-{_short_hash(servers)}"
    return f"landing-{_short_hash(qualified(without_parameters(source)))}"


def _short_hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]

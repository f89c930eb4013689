"""Landing zones as input of `fleet run`: new files, divided into batches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from pyarrow.fs import FileSystem

from fleetgauge.fleet.engines.engine import MAX_BAD_FILES, Batch
from fleetgauge.fleet.errors import LandingError
from fleetgauge.fleet.pipeline.folders import KnownFolders
from fleetgauge.fleet.pipeline.ledger import DATE_DIRECTORY, Ledger, Part, Plan, day_of
from fleetgauge.fleet.source.topic.source import Source, TopicSource
from fleetgauge.fleet.source.zone_files import FOLDERS_WITHOUT_PUSHES, LOCAL, folders, sizes_of
from fleetgauge.fleet.tables.paths import plain_path, qualified, without_parameters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_BATCH_BYTES: Final = 256 * 1024 * 1024
"""Parquet of a landing zone that one batch reads on Spark [B], unless a number of files is given: of real clients some
twenty million data points, whose payloads are twenty times as large."""

MAX_BATCH_BYTES_A_PROCESS: Final = 18 * 1024 * 1024
"""The same for each process without Spark, which holds its part of a batch's payloads in memory: a whole file
of an exporter."""

MAX_BATCH_RECORDS: Final = 2_000_000
"""Records of a topic that one batch reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of one batch.

    Attributes:
        max_files: of a landing zone; None goes by their bytes alone.
        max_bytes: of these files [B]; one that is larger is a batch.
        max_records: of a topic.
        max_processes: that compute it without Spark; None for as many as suit.
    """

    max_files: int | None = None
    max_bytes: int = MAX_BATCH_BYTES
    max_records: int = MAX_BATCH_RECORDS
    max_processes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewInput:
    """Input of a source that was not read yet.

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
        known: what is known of its folders.
        system: reads it in this process; None where only Spark does.

    Attributes:
        root: its path.
        known: as given.
        beside: by folder without pushes, the sizes [B] of files that may be new by their paths below the zone.

    Raises:
        LandingError: there is no such directory, or it cannot be listed.
    """

    def __init__(
        self,
        start: Callable[[], "SparkSession"],
        source: str,
        ledger: Ledger,
        known: KnownFolders,
        system: FileSystem | None = LOCAL,
    ) -> None:
        self.root = plain_path(qualified(without_parameters(source)))
        self.system = system
        self.beside: dict[str, dict[str, int]] = {folder: {} for folder in FOLDERS_WITHOUT_PUSHES}
        self.known = known
        self._source = source
        self._ledger = ledger
        self._new: dict[str, int] = {}
        self._read: dict[str, int] = {}  # sizes of files that were read, of folders that are not as they were
        self._changed: list[str] = []
        below, read_to = "", dict[str, int]()
        for folder in folders(source, start, system, known.passes_over):
            sizes = {f"{folder.path}/{name}".lstrip("/"): size for name, size in folder.files.items()}
            top = folder.path.partition("/")[0]
            if known.is_as_known(folder):
                continue
            if top in self.beside:
                self.beside[top] |= sizes
            elif sizes:
                if top != below or not top:
                    below, read_to = top, ledger.read_to(top)  # of a day at a time
                self._look_at(sizes, read_to)
                if any(read_to.get(path, size) != size for path, size in sizes.items()):
                    known.leave_open(folder.path)

    def _look_at(self, sizes: Mapping[str, int], read_to: Mapping[str, int]) -> None:
        for path, size in sizes.items():
            if path not in read_to:
                self._new[path] = size
            else:
                self._read[path] = size
                if read_to[path] != size:
                    self._changed.append(f"{self.root}/{path}")

    def new_input(self) -> NewInput:
        """New files, and files that have changed."""
        return NewInput(amount=len(self._new), unit="files", changed=tuple(sorted(self._changed)))

    def bytes_to_read(self) -> int:
        """Size of the new files, or of an interrupted batch [B]."""
        begun = (part.end for plan in self._ledger.unfinished() for part in plan.parts)
        return sum(self._new.values()) + sum(begun)

    def cut(self, bounds: Bounds) -> Iterator[list[Part]]:
        """New files, divided by number and bytes."""
        return cut_files(self._new, bounds)

    def read_again(self, day: date) -> None:
        """Marks the files of a day as not read."""
        self.known.forget_days()
        self._ledger.forget(day)
        self._new |= {path: size for path, size in self._read.items() if day_of(path) == day}

    def batch(self, plan: Plan) -> Batch:
        """Files of a planned batch.

        Raises:
            LandingError: many of them are there no more.
        """
        sizes = self._sizes([part.path for part in plan.parts])
        unfit = {f"{self.root}/{part.path}": said for part in plan.parts if (said := _fault(part, sizes))}
        if len(unfit) > MAX_BAD_FILES:
            raise LandingError(
                f"{len(unfit):,} files of an interrupted batch are missing or changed in {self.root}, "
                f"for example {next(iter(unfit))}: restore them and run again"
            )
        files = tuple(f"{self.root}/{part.path}" for part in plan.parts)
        return Batch(number=plan.number, files=files, system=self.system, unfit=unfit)

    def check_day(self, day: date) -> None:
        """Raises LandingError unless every file of a day that was read still exists unchanged."""
        of_day = self._ledger.read_to(f"{DATE_DIRECTORY}{day}")
        if not of_day:
            raise LandingError(
                f"no file of {day} was read from {self.root}: --redecode takes a day of receipt (UTC), as in the "
                "names of the directories of a landing zone"
            )
        if other := [path for path, size in of_day.items() if self._read.get(path) != size]:
            raise LandingError(
                f"{len(other):,} of {len(of_day):,} files of {day} are missing or changed in {self.root}, "
                f"for example {other[0]}: --redecode needs all of them; nothing was changed"
            )

    def _sizes(self, paths: Sequence[str]) -> dict[str, int]:
        """Sizes of existing files; new ones were listed just before."""
        others = [path for path in paths if path not in self._new]
        sizes = sizes_of(self.system, self._source, others) if self.system and others else self._read
        return {**sizes, **self._new}


def _fault(part: Part, sizes: Mapping[str, int]) -> str | None:
    size = sizes.get(part.path)
    if size is None:
        return "the file was removed before it was read"
    if size != part.end:
        return f"the file was changed before it was read: its size was {part.end} B and is {size} B"
    return None


def cut_files(sizes: Mapping[str, int], bounds: Bounds) -> Iterator[list[Part]]:
    """Batches of files in the order of their paths; no file is split."""
    batch: list[Part] = []
    size_bytes = 0
    for path in sorted(sizes):
        part = Part(path=path, begin=0, end=sizes[path])
        if batch and (len(batch) == bounds.max_files or size_bytes + part.end > bounds.max_bytes):
            yield batch
            batch, size_bytes = [], 0
        batch.append(part)
        size_bytes += part.end
    if batch:
        yield batch


def source_name(source: Source) -> str:
    """Name of a source, the same in later runs."""
    if isinstance(source, TopicSource):
        servers = ",".join(sorted(source.bootstrap_servers.split(",")))
        return f"topic-{source.topic}-{_short_hash(servers)}"
    return f"landing-{_short_hash(qualified(without_parameters(source)))}"


def _short_hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]

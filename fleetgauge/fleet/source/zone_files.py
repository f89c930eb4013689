"""The files of a landing zone: on this machine, in S3, or on any other file system that Spark knows.

Names that begin with `_` or `.` are no part of it: writers keep unfinished files there.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from pyarrow import ArrowException, BufferReader, fs

from fleetgauge.base.deadline import within
from fleetgauge.fleet.errors import LandingError, first_line, no_landing_zone
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.tables.paths import is_s3, local_path, qualified, s3_arguments, without_parameters
from fleetgauge.telemetry.push_record import SCHEMA_VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUP_OFFSETS_FOLDER: Final = "group_offsets"
"""Folder in a zone with samples of consumer groups instead of pushes."""
TRAFFIC_FOLDER: Final = "traffic"
"""Folder in a zone with traffic rows of a gateway."""
FOLDERS_WITHOUT_PUSHES: Final = frozenset({GROUP_OFFSETS_FOLDER, TRAFFIC_FOLDER})

_DATE: Final = "date="
_HOUR: Final = "hour="
_NODES_FILE: Final = "meta.properties"

S3_WITHIN_S: Final = 120.0
"""Time limit to list a zone in S3, to read a file of it, or to find its region [s]: pyarrow's own limits apply to each
byte.
"""

LOCAL: Final = fs.LocalFileSystem()


def file_system(source: str, options: Mapping[str, str]) -> fs.FileSystem | None:
    """File system to read a zone in this process, on this machine or in S3; None for others, which Spark reads.

    Args:
        source: path or URI of the zone.
        options: for object stores; see `fleet.tables.paths.storage_options`.

    Raises:
        LandingError: there is no such bucket, or S3 does not answer.
    """
    if not is_s3(source):
        return None if local_path(source) is None else LOCAL
    try:
        return within(S3_WITHIN_S, lambda: _s3(source, options))  # waits for what others of this process wait for
    except (OSError, ValueError) as error:
        raise LandingError(f"cannot open the landing zone {source}: {first_line(error)}") from error


def _s3(source: str, options: Mapping[str, str]) -> fs.S3FileSystem:
    arguments = s3_arguments(source, options)
    if not arguments.keys() & {"region", "endpoint_override"} and "AWS_ENDPOINT_URL" not in os.environ:
        arguments["region"] = fs.resolve_s3_region(_in_s3(without_parameters(source)).partition("/")[0])
    return fs.S3FileSystem(**arguments)


def _in_s3(uri: str) -> str:
    """Bucket and key, in pyarrow's form."""
    return uri.partition("://")[2]


def opened(system: fs.FileSystem, path: str) -> str | BufferReader:
    """Input for pyarrow: the path of a file, or its whole content from S3, which takes one request.

    Raises:
        OSError: S3 does not have it, or does not answer.
    """
    if isinstance(system, fs.LocalFileSystem):  # another process has another object
        return path

    def read() -> bytes:
        with system.open_input_stream(_in_s3(path)) as stream:
            return stream.read()

    return BufferReader(within(S3_WITHIN_S, read))


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder of a zone, and the files in it.

    Attributes:
        path: below the zone; empty for the zone itself.
        files: size [B] by name.
        changed_us: when an entry of it changed last [us since the epoch]; None where the file system does not say, and
            of folders with folders in them.
    """

    path: str
    files: Mapping[str, int]
    changed_us: int | None

    @property
    def digest(self) -> str:
        """Digest of the names and sizes of its files."""
        lines = (f"{name}/{size}" for name, size in sorted(self.files.items()))
        return blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A file of a zone: its path below it, its size [B], and when it was written [us since the epoch]."""

    path: str
    size_bytes: int
    written_us: int


Skip = Callable[[str, int | None], bool]
"""Predicate for folders that are skipped with everything below them, by path and `Folder.changed_us`."""


def folders(
    source: str, start: Callable[[], "SparkSession"], system: fs.FileSystem | None, skip: Skip
) -> Iterator[Folder]:
    """Folders of a zone in the order in which they are listed: one by one on this machine, day by day in S3.

    Args:
        source: path or URI of the zone.
        start: gives the session, which lists a zone that has no `system`: all of it, whatever `skip` says.
        system: reads the zone.
        skip: which folders are passed over.

    Raises:
        LandingError: there is no such directory, it is another one, or it cannot be listed.
    """
    if system is None:
        yield from _by_folder(list_files(source, start))
        return
    root = _root(source)
    if system is LOCAL:
        _check_zone(Path(root), source)
    waiting: list[tuple[str, int | None]] = [("", None)]
    while waiting:
        path, changed_us = waiting.pop()
        if path and skip(path, changed_us):
            continue
        is_day_in_s3 = system is not LOCAL and path.rpartition("/")[2].startswith(_DATE)
        entries = _entries(system, root, path, source, recursive=is_day_in_s3)
        sizes = _visible({_below(root, entry): entry.size for entry in entries if entry.is_file})
        below = [] if is_day_in_s3 else [entry for entry in entries if entry.type == fs.FileType.Directory]
        if is_day_in_s3:
            yield from _by_folder(sizes)
        else:
            files = {name.rpartition("/")[2]: size for name, size in sizes.items()}
            yield Folder(path=path, files=files, changed_us=None if below else changed_us)
        for entry in below:
            if not _is_hidden(entry.base_name):
                changed = None if entry.mtime_ns is None else entry.mtime_ns // 1000
                waiting.append((_below(root, entry), changed))


def written_files(system: fs.FileSystem, source: str, since_us: int) -> Iterator[Written]:
    """Files of a zone that were written since a time, and possibly others.

    On this machine folders of hours are passed over whose entries have not changed since: a file comes into its folder
    after it was written.

    Raises:
        LandingError: there is no such directory, it is another one, or it cannot be listed.
    """
    root = _root(source)
    if system is LOCAL:
        _check_zone(Path(root), source)
    waiting = [""]
    while waiting:
        for entry in _entries(system, root, waiting.pop(), source, recursive=system is not LOCAL):
            path, written_us = _below(root, entry), (entry.mtime_ns or 0) // 1000
            if any(map(_is_hidden, path.split("/"))):
                continue
            if entry.is_file:
                yield Written(path=path, size_bytes=entry.size, written_us=written_us)
            elif system is LOCAL and (written_us >= since_us or not entry.base_name.startswith(_HOUR)):
                waiting.append(path)


def _by_folder(sizes: Mapping[str, int]) -> Iterator[Folder]:
    folders: dict[str, dict[str, int]] = {}
    for path, size in sizes.items():
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, {})[name] = size
    return (Folder(path=path, files=files, changed_us=None) for path, files in folders.items())


def _root(source: str) -> str:
    """Path of the zone on its file system."""
    directory = local_path(source)
    return _in_s3(without_parameters(source)).rstrip("/") if directory is None else str(directory)


def _below(root: str, entry: fs.FileInfo) -> str:
    return str(entry.path[len(root) + 1 :])


def _entries(system: fs.FileSystem, root: str, path: str, source: str, *, recursive: bool) -> list[fs.FileInfo]:
    selector = fs.FileSelector(f"{root}/{path}".rstrip("/"), recursive=recursive)
    try:
        return list(within(S3_WITHIN_S, lambda: system.get_file_info(selector)))
    except FileNotFoundError as error:
        raise LandingError(no_landing_zone(source)) from error
    except (OSError, ArrowException) as error:
        raise LandingError(f"cannot list the landing zone {source}: {first_line(error)}") from error


def sizes_of(system: fs.FileSystem, source: str, paths: Sequence[str]) -> dict[str, int]:
    """Sizes of files, by their paths below a zone; missing files are left out."""
    root = _root(source)
    infos = within(S3_WITHIN_S, lambda: system.get_file_info([f"{root}/{path}" for path in paths]))
    return {path: info.size for path, info in zip(paths, infos, strict=True) if info.is_file}


def list_files(source: str, start: Callable[[], "SparkSession"]) -> dict[str, int]:
    """Path below the landing zone and size [B] of its files, sorted by path; the path is empty if the source itself is
    a file.

    Args:
        source: path or URI of the zone.
        start: gives the session, which a zone on another file system is listed by.

    Raises:
        LandingError: there is no such directory, it is another one, or it cannot be listed.
    """
    directory = local_path(source)
    if directory is not None:
        return list_here(directory, source)
    return _list_by_spark(start(), qualified(without_parameters(source)))


def list_here(directory: Path, source: str) -> dict[str, int]:
    """`list_files` for a zone on this machine; `source` is its name in errors."""
    if directory.is_file():
        return {"": directory.stat().st_size}
    _check_zone(directory, source)
    entries = _entries(LOCAL, str(directory), "", source, recursive=True)
    return _visible({_below(str(directory), entry): entry.size for entry in entries if entry.is_file})


def _check_zone(directory: Path, source: str) -> None:
    if not directory.is_dir():
        raise LandingError(no_landing_zone(source))
    _refuse_directory_above(directory)


def has_pushes(path: str) -> bool:
    """False for a file that holds no pushes, by its path below the zone."""
    return path.partition("/")[0] not in FOLDERS_WITHOUT_PUSHES


def is_of_days(path: str, selection: Selection) -> bool:
    """False for a file below a `date=` folder outside the selected time."""
    for part in path.split("/"):
        try:
            day = date.fromisoformat(part.removeprefix(_DATE)) if part.startswith(_DATE) else None
        except ValueError:
            continue
        if day is not None and (
            (selection.since is not None and day < selection.since.date())
            or (selection.until is not None and day > selection.until.date())
        ):
            return False
    return True


def refuse_newer(source: str, newest: int | None) -> None:
    """Raises LandingError for push records of a later schema: the reader is too old, the records are valid."""
    if newest is not None and newest > SCHEMA_VERSION:
        raise LandingError(
            f"{source} has push records of schema version {newest}, and this release of Fleetgauge reads up to "
            f"{SCHEMA_VERSION}: upgrade it"
        )


def _refuse_directory_above(root: Path) -> None:
    """Rejects a directory that contains a landing zone: other files beside the zone would count as damaged pushes.

    Raises:
        LandingError: it is the data directory of a node, or what `fleet simulate` wrote.
    """
    landing = root / "landing"
    if (root / _NODES_FILE).is_file():
        raise LandingError(f"{root} is a node's data directory: use the landing zone in it, {landing}")
    if any(landing.glob(f"{_DATE}*")) and not any(root.glob(f"{_DATE}*")):
        raise LandingError(f"{root} is not a landing zone: use the one in it, {landing}")


def _list_by_spark(spark: "SparkSession", uri: str) -> dict[str, int]:
    """Lists files with the session's own credentials, on any file system."""
    from fleetgauge.fleet.spark.errors import SPARK_ERRORS, is_missing_path, what_failed

    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        rows = files.load(uri).select("path", "length").collect()
    except SPARK_ERRORS as error:
        if is_missing_path(error):
            raise LandingError(no_landing_zone(uri)) from error
        raise LandingError(f"cannot list the landing zone {uri}: {what_failed(error)}") from error
    prefix = len(uri) + 1
    return _visible({unquote(row.path)[prefix:]: row.length for row in rows})


def _visible(sizes: dict[str, int]) -> dict[str, int]:
    return {path: sizes[path] for path in sorted(sizes) if not any(map(_is_hidden, path.split("/")))}


def _is_hidden(name: str) -> bool:
    """True for names that Spark ignores, too, except `_date=1`, which would be a column's directory."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)

"""The files of a landing zone: on this machine, in S3, or on any other file system that Spark knows.

Names that begin with `_` or `.` are no part of it: writers keep unfinished files there.
"""

import os
from collections.abc import Callable, Mapping
from datetime import date
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
"""Of a zone: samples of consumer groups, which are no pushes."""
TRAFFIC_FOLDER: Final = "traffic"
"""Of a zone: rows of a gateway's traffic."""
FOLDERS_WITHOUT_PUSHES: Final = frozenset({GROUP_OFFSETS_FOLDER, TRAFFIC_FOLDER})

_DATE: Final = "date="
_NODES_FILE: Final = "meta.properties"

S3_WITHIN_S: Final = 120.0
"""Time to list a zone in S3, to read a file of it, or to find its region [s]: pyarrow's own limits are of each byte."""

LOCAL: Final = fs.LocalFileSystem()


def file_system(source: str, options: Mapping[str, str]) -> fs.FileSystem | None:
    """What reads a zone in this process: one on this machine or in S3; None for others, which Spark reads.

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
    """Bucket and key, as pyarrow has them."""
    return uri.partition("://")[2]


def opened(system: fs.FileSystem, path: str) -> str | BufferReader:
    """What pyarrow reads a file from: its path, or all of it in S3, which is one request.

    Raises:
        OSError: S3 does not have it, or does not answer.
    """
    if system is LOCAL:
        return path

    def read() -> bytes:
        with system.open_input_stream(_in_s3(path)) as stream:
            return stream.read()

    return BufferReader(within(S3_WITHIN_S, read))


def _list_s3(system: fs.FileSystem, source: str) -> dict[str, int]:
    root = _in_s3(without_parameters(source)).rstrip("/")
    try:
        found = within(S3_WITHIN_S, lambda: system.get_file_info(fs.FileSelector(root, recursive=True)))
    except FileNotFoundError as error:
        raise LandingError(no_landing_zone(source)) from error
    except (OSError, ArrowException) as error:
        raise LandingError(f"cannot list the landing zone {source}: {first_line(error)}") from error
    return _visible({info.path[len(root) + 1 :]: info.size for info in found if info.is_file})


def list_files(source: str, start: Callable[[], "SparkSession"], system: fs.FileSystem | None = None) -> dict[str, int]:
    """Path below the landing zone and size [B] of its files, in the order of the paths; the path is empty where the
    source is itself a file.

    Args:
        source: path or URI of the zone.
        start: gives the session, which a zone on another file system is listed by, unless this is given:
        system: of a zone in S3.

    Raises:
        LandingError: there is no such directory, it is another one, or it cannot be listed.
    """
    directory = local_path(source)
    if directory is not None:
        return list_here(directory, source)
    return (
        _list_by_spark(start(), qualified(without_parameters(source))) if system is None else _list_s3(system, source)
    )


def list_here(directory: Path, source: str) -> dict[str, int]:
    """The same of a zone on this machine; `source` is how it was named."""
    if not directory.exists():
        raise LandingError(no_landing_zone(source))
    if directory.is_file():
        return {"": directory.stat().st_size}
    _refuse_directory_above(directory)
    try:
        found = fs.LocalFileSystem().get_file_info(fs.FileSelector(str(directory), recursive=True))
    except OSError as error:
        raise LandingError(f"cannot list the landing zone {directory}: {error}") from error
    return _visible({info.path[len(str(directory)) + 1 :]: info.size for info in found if info.is_file})


def has_pushes(path: str) -> bool:
    """False for a file, by its path below the zone, whose rows are no pushes."""
    return path.partition("/")[0] not in FOLDERS_WITHOUT_PUSHES


def is_of_days(path: str, selection: Selection) -> bool:
    """False for a file below a `date=` folder outside of the selected time."""
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
    """Push records of a later form are push records: what is wrong is the reader."""
    if newest is not None and newest > SCHEMA_VERSION:
        raise LandingError(
            f"{source} holds push records of schema version {newest}, and this fleetgauge reads those up to "
            f"{SCHEMA_VERSION}: update it"
        )


def _refuse_directory_above(root: Path) -> None:
    """A directory with a landing zone in it: other files beside the zone would be taken for damaged or refused pushes.

    Raises:
        LandingError: it is the data directory of a node, or what `fleet simulate` wrote.
    """
    landing = root / "landing"
    if (root / _NODES_FILE).is_file():
        raise LandingError(f"{root} is a node's data directory: name the landing zone in it, {landing}")
    if any(landing.glob(f"{_DATE}*")) and not any(root.glob(f"{_DATE}*")):
        raise LandingError(f"{root} is no landing zone: name the one in it, {landing}")


def _list_by_spark(spark: "SparkSession", uri: str) -> dict[str, int]:
    """With the session's own credentials, whichever file system it is."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from fleetgauge.fleet.spark.errors import is_missing_path, what_failed

    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        found = files.load(uri).select("path", "length").collect()
    except (PySparkException, Py4JJavaError) as error:
        if is_missing_path(error):
            raise LandingError(no_landing_zone(uri)) from error
        raise LandingError(f"cannot list the landing zone {uri}: {what_failed(error)}") from error
    prefix = len(uri) + 1
    return _visible({unquote(row.path)[prefix:]: row.length for row in found})


def _visible(sizes: dict[str, int]) -> dict[str, int]:
    return {path: sizes[path] for path in sorted(sizes) if not any(map(_is_hidden, path.split("/")))}


def _is_hidden(name: str) -> bool:
    """As Spark has it: `_date=1` would be a column's directory."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)

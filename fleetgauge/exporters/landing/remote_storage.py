"""A landing zone on any file system with a `pyarrow.fs` URI, mainly object stores."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import pyarrow as pa
from pyarrow import fs as pa_fs

from fleetgauge.exporters.landing.storage import WRITING

_ERRORS: Final = (OSError, pa.ArrowException)

_DELAYED_OPEN: Final = "allow_delayed_open"

_VISIBLE_WHEN_CLOSED: Final = frozenset({"s3", "gcs"})
"""Object stores, in which an upload is atomic and a rename is a copy."""


def from_uri(path: str) -> tuple[pa_fs.FileSystem, str]:
    """The file system of a URI, and the path within it; for S3 one that uploads a small file when it is closed, in one
    request in place of three.
    """
    if path.startswith("s3://") and f"{_DELAYED_OPEN}=" not in path:
        # pyarrow before 21 does not know it; and what else is wrong is to be said of the path itself.
        with suppress(pa.ArrowInvalid):
            return pa_fs.FileSystem.from_uri(f"{path}{'&' if '?' in path else '?'}{_DELAYED_OPEN}=true")
    return pa_fs.FileSystem.from_uri(path)


class RemoteStorage:
    """Any other `pyarrow.fs` file system.

    Args:
        filesystem: what to write with.
        root: path within it.
        writer: name of this writer's folder for unfinished files.
    """

    def __init__(self, filesystem: pa_fs.FileSystem, root: str, writer: str) -> None:
        self._filesystem = filesystem
        self._root = root
        self._writing = f"{root}/{WRITING}/{writer}"
        self._renames = filesystem.type_name not in _VISIBLE_WHEN_CLOSED

    def start(self) -> None:
        """See `LandingStorage.start`."""
        if self._renames:
            self._filesystem.create_dir(self._writing, recursive=True)
            self._filesystem.delete_dir_contents(self._writing)

    def publish(self, partition: str, name: str, data: pa.Buffer) -> None:
        """See `LandingStorage.publish`."""
        final = f"{self._root}/{partition}/{name}"
        if not self._renames:
            self._write(final, data)
            return
        unfinished = f"{self._writing}/{name}"
        try:
            self._write(unfinished, data)
            self._filesystem.create_dir(f"{self._root}/{partition}", recursive=True)
            self._filesystem.move(unfinished, final)
        except _ERRORS:
            with suppress(*_ERRORS):
                self._filesystem.delete_file(unfinished)
            raise

    def files(self, partition: str) -> dict[str, int]:
        """See `LandingStorage.files`."""
        return {info.base_name: info.size or 0 for info in self._below(partition) if info.is_file}

    def open(self, partition: str, name: str) -> pa.NativeFile:
        """See `LandingStorage.open`."""
        return self._filesystem.open_input_file(f"{self._root}/{partition}/{name}")

    def partitions(self) -> list[str]:
        """See `LandingStorage.partitions`."""
        dates = [info.base_name for info in self._below("") if info.base_name.startswith("date=")]
        return [
            f"{date}/{info.base_name}"
            for date in dates
            for info in self._below(date)
            if info.base_name.startswith("hour=")
        ]

    def remove(self, partition: str, names: Iterable[str]) -> None:
        """See `LandingStorage.remove`."""
        for name in names:
            with suppress(FileNotFoundError):
                self._filesystem.delete_file(f"{self._root}/{partition}/{name}")
        for folder in (partition, partition.partition("/")[0]):
            if self._below(folder):
                return
            with suppress(OSError):  # an object store has no folders, but may have a marker for one
                self._filesystem.delete_dir(f"{self._root}/{folder}")

    def _below(self, folder: str) -> list[pa_fs.FileInfo]:
        path = f"{self._root}/{folder}".rstrip("/")
        return self._filesystem.get_file_info(pa_fs.FileSelector(path, allow_not_found=True))

    def _write(self, path: str, data: pa.Buffer) -> None:
        with self._filesystem.open_output_stream(path) as stream:
            stream.write(data)

"""Writes complete files to a landing zone: readers never see a partial file.

A local file is written under `_writing/`, which Spark and pyarrow ignore, synced, and renamed into place. The mode of
the landing zone's root decides who may read it, for example another user's Spark.
"""

import os
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from fleetgauge.base.redaction import without_credentials

if TYPE_CHECKING:
    import pyarrow as pa

WRITING: Final = "_writing"
"""Folder of unfinished files, in the landing zone's root and therefore in its file system."""


def storage_errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """`others`, and what any method of a storage may raise where `OSError` is documented: pyarrow has its own errors
    for unsupported operations and unexpected answers of a file system. They are raised only if it is imported.
    """
    pyarrow = sys.modules.get("pyarrow")
    return (OSError, *others) if pyarrow is None else (OSError, pyarrow.ArrowException, *others)


def first_line(error: Exception) -> str:
    """The first line of an error, without secrets; some storages add pages of text."""
    return without_credentials(next(iter(str(error).splitlines()), type(error).__name__))


class LandingStorage(Protocol):
    """A storage for the files."""

    def start(self) -> None:
        """Creates the root, and removes unfinished files of an earlier process of the same writer.

        Raises:
            OSError: it cannot be created.
        """
        ...

    def publish(self, partition: str, name: str, data: "pa.Buffer") -> None:
        """Makes `data` durable and readable as `partition`/`name`; replaces a file of that name.

        Raises:
            OSError: it cannot be written; nothing of it is visible.
        """
        ...

    def files(self, partition: str) -> dict[str, int]:
        """The visible files of a partition, with their sizes [B]; empty if the folder does not exist.

        Raises:
            OSError: it cannot be listed.
        """
        ...

    def open(self, partition: str, name: str) -> "BinaryIO | pa.NativeFile":
        """Opens a published file for reading.

        Raises:
            OSError: it cannot be opened.
        """
        ...

    def partitions(self) -> list[str]:
        """The existing folders `date=.../hour=...`.

        Raises:
            OSError: they cannot be listed.
        """
        ...

    def remove(self, partition: str, names: Iterable[str]) -> None:
        """Removes these files, and the partition's folders if they are then empty.

        Raises:
            OSError: a file cannot be removed; a missing one is ignored.
        """
        ...


class LocalStorage:
    """A local or mounted folder."""

    def __init__(self, root: Path, writer: str) -> None:
        self._root = root
        self._writing = root / WRITING / writer

    def start(self) -> None:
        """See `LandingStorage.start`."""
        _make_folder(self._writing)
        for leftover in self._writing.iterdir():
            leftover.unlink()

    def publish(self, partition: str, name: str, data: "pa.Buffer") -> None:
        """See `LandingStorage.publish`. File and folder are synced to the disk before it returns."""
        unfinished = self._writing / name
        folder = self._root / partition
        try:
            _make_folder(self._writing)
            with unfinished.open("wb") as file:
                file.write(data)
                file.flush()
                open_up(unfinished, self._mode() & 0o666)
                os.fsync(file.fileno())
            self._make_partition(folder)
            unfinished.replace(folder / name)
            _sync_folder(folder)
        except OSError:
            with suppress(OSError):
                unfinished.unlink()
            raise

    def files(self, partition: str) -> dict[str, int]:
        """See `LandingStorage.files`."""
        sizes: dict[str, int] = {}
        with suppress(FileNotFoundError), os.scandir(self._root / partition) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    sizes[entry.name] = entry.stat().st_size
        return sizes

    def open(self, partition: str, name: str) -> BinaryIO:
        """See `LandingStorage.open`."""
        return (self._root / partition / name).open("rb")

    def partitions(self) -> list[str]:
        """See `LandingStorage.partitions`."""
        return [f"{hour.parent.name}/{hour.name}" for hour in self._root.glob("date=*/hour=*")]

    def remove(self, partition: str, names: Iterable[str]) -> None:
        """See `LandingStorage.remove`."""
        hour = self._root / partition
        for name in names:
            (hour / name).unlink(missing_ok=True)
        with suppress(OSError):  # it is not empty, or was already removed
            hour.rmdir()
            hour.parent.rmdir()

    def _mode(self) -> int:
        return stat.S_IMODE(self._root.stat().st_mode)

    def _make_partition(self, folder: Path) -> None:
        """Creates a folder `date=.../hour=...` with the mode of the root."""
        missing = [each for each in (folder.parent, folder) if not each.is_dir()]
        _make_folder(folder)
        for each in missing:
            open_up(each, self._mode())


def open_up(path: Path, mode: int) -> None:
    """Sets a mode; does nothing on a file system with fixed modes."""
    with suppress(PermissionError):
        path.chmod(mode)


def _make_folder(folder: Path) -> None:
    """Creates a folder with its parents, and syncs each parent that has a new entry."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

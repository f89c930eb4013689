"""Puts whole files into a landing zone: what a reader can see is complete, always.

A local file is written under `_writing/`, which Spark and pyarrow ignore, synced, and renamed into place. Who may read
it, the mode of the landing zone's root decides: another user's Spark reads what was made for it.
"""

import os
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

WRITING: Final = "_writing"
"""Folder of unfinished files, in the landing zone's root and so in its file system."""


def storage_errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """`others`, and what any method of a storage may raise where `OSError` is said: pyarrow has errors of its own for
    what a kind of file system cannot do, or answers in an unexpected way. They are raised only where it is imported.
    """
    pyarrow = sys.modules.get("pyarrow")
    return (OSError, *others) if pyarrow is None else (OSError, pyarrow.ArrowException, *others)


class LandingStorage(Protocol):
    """Where the files go."""

    def start(self) -> None:
        """Makes the root, and removes what an earlier process of the same writer left unfinished.

        Raises:
            OSError: it cannot be made.
        """
        ...

    def publish(self, partition: str, name: str, data: "pa.Buffer") -> None:
        """Makes `data` readable as `partition`/`name`, for good; replaces a file of that name.

        Raises:
            OSError: it cannot be written; nothing of it is visible.
        """
        ...

    def files(self, partition: str) -> dict[str, int]:
        """The visible files of a partition, with their sizes [B]; none where there is no such folder.

        Raises:
            OSError: it cannot be listed.
        """
        ...

    def open(self, partition: str, name: str) -> "BinaryIO | pa.NativeFile":
        """A file that was published, for reading.

        Raises:
            OSError: it cannot be opened.
        """
        ...

    def partitions(self) -> list[str]:
        """The folders `date=.../hour=...` that there are.

        Raises:
            OSError: they cannot be listed.
        """
        ...

    def remove(self, partition: str, names: Iterable[str]) -> None:
        """Removes these files, and the partition's folders where nothing else is left in them.

        Raises:
            OSError: a file cannot be removed; one that is gone already is no matter.
        """
        ...


class LocalStorage:
    """A folder of this machine, or one that is mounted."""

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
                _open_up(unfinished, self._mode() & 0o666)
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
        found: dict[str, int] = {}
        with suppress(FileNotFoundError), os.scandir(self._root / partition) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    found[entry.name] = entry.stat().st_size
        return found

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
        with suppress(OSError):  # something is left, or somebody else was quicker
            hour.rmdir()
            hour.parent.rmdir()

    def _mode(self) -> int:
        return stat.S_IMODE(self._root.stat().st_mode)

    def _make_partition(self, folder: Path) -> None:
        """Makes a folder `date=.../hour=...` for those for whom the landing zone is."""
        missing = [each for each in (folder.parent, folder) if not each.is_dir()]
        _make_folder(folder)
        for each in missing:
            _open_up(each, self._mode())


def _open_up(path: Path, mode: int) -> None:
    with suppress(PermissionError):  # a file system that has modes of its own
        path.chmod(mode)


def _make_folder(folder: Path) -> None:
    """Makes a folder with its parents, and syncs each parent that got a new entry."""
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

"""Files that a command writes, whole or not at all: on this machine, or in an object store."""

import io
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from fleetgauge.base.deadline import within
from fleetgauge.base.errors import FleetgaugeError

STDOUT: Final = "-"
_WITHIN_S: Final = 120.0
"""Time for each call of an object store [s]: pyarrow's own limits are of each byte."""


class OutputError(FleetgaugeError):
    """An answer cannot be written as asked."""


@contextmanager
def new_file_in(path: str, name: str) -> Iterator[io.RawIOBase]:
    """A file in a new directory, which is removed again if the file is not written to its end.

    Args:
        path: of the directory, on this machine or as the URI of an object store.
        name: of the file.

    Raises:
        OutputError: there is something at `path` already, or it cannot be written.
    """
    with _new_directory(path) as directory, _NewFile(directory, name) as file:
        yield file


class _NewFile(io.RawIOBase):
    """A new file, each call of which has a deadline: an object store may answer a byte now and then for ever."""

    def __init__(self, directory: Any, name: str) -> None:
        self._file = within(_WITHIN_S, lambda: directory.open_output_stream(name))

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        within(_WITHIN_S, lambda: self._file.write(data))
        return len(data)

    def close(self) -> None:
        if not self.closed:
            super().close()  # once, whatever becomes of it
            within(_WITHIN_S, self._file.close)


@contextmanager
def _new_directory(path: str) -> Iterator[Any]:
    """A file system whose root is the directory: of this machine, or the object store of a URI."""
    import pyarrow as pa  # help needs it not
    from pyarrow import fs

    def create() -> tuple[Any, str]:
        is_uri = "://" in path
        local = fs.LocalFileSystem(), path
        system, directory = fs.FileSystem.from_uri(path.replace("s3a://", "s3://", 1)) if is_uri else local
        if system.get_file_info(directory).type != fs.FileType.NotFound:
            raise OutputError(f"{path} exists already: name another --output or remove it")
        system.create_dir(directory, recursive=True)
        return system, directory

    try:
        system, directory = within(_WITHIN_S, create)
    except (OSError, pa.ArrowException) as error:
        raise OutputError(f"cannot write to {path}: {error}") from error
    try:
        yield fs.SubTreeFileSystem(directory, system)
    except BaseException:
        within(_WITHIN_S, lambda: system.delete_dir(directory))
        raise


def check_file(path: str) -> None:
    """Checks that a file can be written at the path.

    Raises:
        OutputError: it is a directory, or in a directory that does not exist.
    """
    file = Path(path)
    if path == STDOUT:
        return
    if file.is_dir():
        raise OutputError(f"{path} is a directory: give --output the name of a file, {file / 'report.html'}")
    if not file.parent.is_dir():
        raise OutputError(f"there is no directory {file.parent}: make it, or give --output another name")


def write_file(path: str, text: str) -> str:
    """Writes a file whole, in place of one that is there, and returns the sentence on where it is and its size.

    Raises:
        OutputError: it cannot be written.
    """
    data = text.encode("utf-8", "replace")
    size = f"{len(data) / 1000:,.0f} kB"
    if path == STDOUT:
        sys.stdout.buffer.write(data)
        return f"{size} written."
    check_file(path)
    try:
        _replace(Path(path), data)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error
    return f"Written to {path}, {size}."


def _replace(path: Path, data: bytes) -> None:
    if path.exists() and not path.is_file():  # a pipe or a device
        path.write_bytes(data)
        return
    path = path.resolve()  # what a link leads to is replaced, not the link
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}", delete=False) as file:
        temporary = Path(file.name)
        try:
            file.write(data)
            file.flush()
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


def _umask() -> int:
    """Umask of this process: a temporary file is its owner's alone, a report is as readable as other files."""
    mask = os.umask(0)
    os.umask(mask)
    return mask

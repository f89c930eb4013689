"""Addresses of Unix sockets whose paths are longer than an address may be.

`sun_path` holds 108 bytes on Linux and 104 on macOS. A socket with a longer path is reached through a descriptor of its
directory, so that it needs no second place in a directory that every user may write to.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from fleetgauge.base.errors import DataDirectoryError

_LONGEST_ADDRESS: Final = 100
_DESCRIPTORS: Final = Path("/proc/self/fd")


@contextmanager
def unix_address(path: Path) -> Iterator[str]:
    """The address of the socket at `path`, to bind or to connect to within the context.

    Raises:
        OSError: its directory cannot be opened.
        DataDirectoryError: the path is too long, and this system has no `/proc/self/fd`.
    """
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield str(path)
        return
    if not _DESCRIPTORS.is_dir():
        raise DataDirectoryError(
            f"{path} is too long for the address of a socket on this system: give log.dirs a shorter path"
        )
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield str(_DESCRIPTORS / str(directory) / path.name)
    finally:
        os.close(directory)


def bound_socket(path: Path) -> socket.socket:
    """A Unix socket at `path` to which this user alone may connect; one that a dead process left is replaced.

    Raises:
        OSError, DataDirectoryError: it cannot be bound.
    """
    with suppress(FileNotFoundError):
        path.unlink()
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with unix_address(path) as address:
            bound.bind(address)
        path.chmod(0o600)  # no client connects before it listens
    except BaseException:
        bound.close()
        raise
    return bound

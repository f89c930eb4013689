"""A lock that allows one run at a time on tables of this machine; it ends with its process.

On other file systems nothing ends with a process, and there is no lock: whoever starts runs sees to it that one runs at
a time.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from fleetgauge.fleet.errors import BusyError, TableError
from fleetgauge.fleet.tables.paths import local_path


@contextmanager
def only_run(root: str, *, what: str = "run is using the tables", name: str = "_lock") -> Iterator[None]:
    """Holds the lock of the tables at `root`, where they lie on this machine.

    Args:
        root: its directory.
        what: end of the error sentence for a second run, after `another`.
        name: of the lock's file.

    Raises:
        BusyError: another run has it.
        TableError: the directory cannot be written to.
    """
    directory = local_path(root)
    if directory is None:
        yield
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / name).open("w")
    except OSError as error:
        raise TableError(f"the directory {root} is not writable: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(f"another {what} in {root}: wait until it ends") from None
        yield

"""Restricts files to their owner: pushes and addresses of clients are not for other users."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger(__name__)

UMASK: Final = 0o077
_OTHERS: Final = 0o077
_OWN_FILES: Final = (
    "push-log",
    "workers",
    "dead-letters*",
    "prometheus-*",
    "state*",
    "audit.log*",
    "meta.properties",
    "*.lock",
)
"""Files of Fleetgauge in a data directory, except the landing zone, which may be meant for another user."""


def keep_files_private() -> None:
    """Makes this process and its children create files and directories that only their own user can read."""
    os.umask(UMASK)


def is_open_to_others(path: Path) -> bool:
    """True if another user may read, write or enter `path`, which exists."""
    return bool(path.stat().st_mode & _OTHERS)


def restrict_to_owner(root: Path) -> None:
    """Revokes other users' access to files that an earlier release created in the data directory `root`.

    Logs the files whose mode it cannot change. The directory's own mode stays: a volume or a landing zone may need it.
    """
    refused = [path for path in _own_files(root) if not _restrict(path)]
    if refused:
        log.warning(
            "data_dir.files_exposed",
            message="other users can read files of the data directory: chmod -R go= them",
            directory=str(root),
            files=len(refused),
            first=str(refused[0]),
        )
    if is_open_to_others(root):
        log.warning(
            "data_dir.exposed",
            message=f"other users can list the data directory, which a landing zone may need: chmod 0700 {root}",
            mode=f"{stat.S_IMODE(root.stat().st_mode):04o}",
        )


def _own_files(root: Path) -> Iterator[Path]:
    for pattern in _OWN_FILES:
        for path in root.glob(pattern):
            yield path
            if path.is_dir() and not path.is_symlink():
                yield from path.rglob("*")


def _restrict(path: Path) -> bool:
    """Restricts a file or directory to its owner; False if that fails. Links, sockets and removed files are skipped."""
    try:
        mode = path.lstat().st_mode
        if mode & _OTHERS and (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True

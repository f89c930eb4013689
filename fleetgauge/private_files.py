"""Keeps what a node writes to itself: pushes and the addresses of clients are no other user's to read."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger(__name__)

UMASK: Final = 0o077
_OF_OTHERS: Final = 0o077
_OURS: Final = ("push-log", "workers", "dead-letters*", "prometheus-*", "meta.properties", "*.lock")
"""What processes of ours make in a data directory, but for the landing zone, which may be made for another user."""


def keep_files_private() -> None:
    """Has this process, and those that it starts, make files and directories for its own user alone."""
    os.umask(UMASK)


def is_open_to_others(path: Path) -> bool:
    """True if another user may read, write or enter `path`, which exists."""
    return bool(path.stat().st_mode & _OF_OTHERS)


def tighten(root: Path) -> None:
    """Takes what an earlier release made in the data directory `root` away from other users, and logs what it cannot.

    The directory itself is left as it is: an operator, a volume or a landing zone may need it so.
    """
    refused = [path for path in _ours(root) if not _is_tight(path)]
    if refused:
        log.warning(
            "other users may read files of the data directory: chmod -R go= them",
            directory=str(root),
            files=len(refused),
            first=str(refused[0]),
        )
    if is_open_to_others(root):
        log.warning(
            f"other users may look into the data directory, where a landing zone may need it: chmod 0700 {root}",
            mode=f"{stat.S_IMODE(root.stat().st_mode):04o}",
        )


def _ours(root: Path) -> Iterator[Path]:
    for pattern in _OURS:
        for path in root.glob(pattern):
            yield path
            if path.is_dir() and not path.is_symlink():
                yield from path.rglob("*")


def _is_tight(path: Path) -> bool:
    """Tightens a file or a directory; a link, a socket, and what is gone by now are no matter."""
    try:
        mode = path.lstat().st_mode
        if mode & _OF_OTHERS and (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            path.chmod(stat.S_IMODE(mode) & ~_OF_OTHERS)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True

"""What this process may use of its machine: memory and open files."""

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_MOST_FILES: Final = 1 << 20
"""Linux' own bound of one process (`fs.nr_open`); some containers are given a limit of a thousand times that."""
_KEPT_FILES: Final = 256
"""Descriptors that clients do not get: for sockets and pipes of the node itself, questions to it, the push log's
segments and the logs. A node at rest has about 40 open."""
_LIMITS: Final = {"": "memory.max", "memory": "memory.limit_in_bytes"}
"""File of a control group's limit by the name of its hierarchy, which is empty for version 2."""


def memory_bytes(root: Path = Path("/")) -> int:
    """Memory that this process and its children may use together [B]: the least of the machine's and of the limits of
    its control groups, of version 2 and of version 1.

    Args:
        root: where `/proc` and `/sys` are found.
    """
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([physical, *_group_limits(root)])


def open_files() -> int:
    """Descriptors that one process of the node can have, once its limit is raised (`raise_open_files`)."""
    soft, hard = _file_limits()
    return max(soft, min(hard, _MOST_FILES))


def raise_open_files() -> None:
    """Raises this process's limit of open files, and that of its children, to what it may be raised to."""
    soft, _ = _file_limits()
    if soft < open_files():
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError, OSError):  # macOS has a lower bound of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (open_files(), hard))


def files_for_clients(files: int) -> int:
    """How many of so many descriptors client connections may take; in a small number a quarter is kept.

    >>> files_for_clients(20_000), files_for_clients(200)
    (19744, 150)
    """
    return files - min(_KEPT_FILES, files // 4)


def first_kept_descriptor() -> int:
    """The lowest descriptor that no client connection may have, whatever is configured.

    It is in the middle of what is kept: the node's own, which were opened first, are among those below it.
    """
    files, _ = _file_limits()
    return (files + files_for_clients(files)) // 2


def _file_limits() -> tuple[int, int]:
    """The limit of open files in force, and the highest that may be set."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (_MOST_FILES if limit == resource.RLIM_INFINITY else limit for limit in limits)
    return soft, hard


def _group_limits(root: Path) -> Iterator[int]:
    """The limits of the groups that this process is in, and of those above them."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            if controller in _LIMITS:
                yield from _limits_above(root / "sys/fs/cgroup" / controller, path.strip("/"), _LIMITS[controller])


def _limits_above(mount: Path, path: str, name: str) -> Iterator[int]:
    """In a container the mount point is often the process's own group, and the path is one of the host: what does not
    exist is passed over.
    """
    group = mount / path
    while group.is_relative_to(mount):
        try:
            text = (group / name).read_text().strip()
        except OSError:
            text = ""
        if text.isdigit():  # not "max"
            yield int(text)
        group = group.parent

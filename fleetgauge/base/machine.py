"""Limits of this process: memory and open files."""

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_MOST_FILES: Final = 1 << 20
"""Linux' default bound per process (`fs.nr_open`); some containers have a limit a thousand times as high."""
_KEPT_FILES: Final = 256
"""Descriptors that are kept from clients: for listeners, pipes, the control socket and the push log. An idle node has
about 40 open."""
_LIMITS: Final = {"": "memory.max", "memory": "memory.limit_in_bytes"}
"""File with a control group's limit, by the name of its hierarchy, which is empty for version 2."""


def memory_bytes(root: Path = Path("/")) -> int:
    """Memory that this process and its children may use together [B]: the minimum of the machine's memory and the
    limits of its control groups (version 1 and 2).

    Args:
        root: the directory with `proc` and `sys`.
    """
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([physical, *_group_limits(root)])


def open_files() -> int:
    """Descriptors that one process of the node may open after `raise_open_files`."""
    soft, hard = _file_limits()
    return max(soft, min(hard, _MOST_FILES))


def raise_open_files() -> None:
    """Raises the limit of open files of this process and its children as far as allowed."""
    soft, _ = _file_limits()
    if soft < open_files():
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError, OSError):  # macOS has a lower bound of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (open_files(), hard))


def files_for_clients(files: int) -> int:
    """Descriptors for client connections, of `files` in all; of a small number a quarter is kept back.

    >>> files_for_clients(20_000), files_for_clients(200)
    (19744, 150)
    """
    return files - min(_KEPT_FILES, files // 4)


def first_kept_descriptor() -> int:
    """The lowest descriptor that no client connection may have, whatever is configured.

    It lies in the middle of those kept back: the node's own, which were opened first, have lower numbers.
    """
    files, _ = _file_limits()
    return (files + files_for_clients(files)) // 2


def _file_limits() -> tuple[int, int]:
    """The soft and the hard limit of open files."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (_MOST_FILES if limit == resource.RLIM_INFINITY else limit for limit in limits)
    return soft, hard


def _group_limits(root: Path) -> Iterator[int]:
    """The limits of the process's control groups and of their parents."""
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
    """The limits from `path` up to `mount`. Files that do not exist are skipped: in a container the mount point is
    often the process's own group, and the path is one of the host.
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

"""A control group of the kernel with a limit of memory, where a test may make one."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.waiting import wait_for

_MOUNTS = {
    Path("/sys/fs/cgroup/memory"): "memory.limit_in_bytes",
    Path("/sys/fs/cgroup"): "memory.max",
}
"""Where version 1 and version 2 are mounted, and what holds a group's limit."""


@contextmanager
def limited_memory(limit_bytes: int) -> Iterator[tuple[str, ...]]:
    """Words before a command that have it run, with all its children, within that much memory; skips where no group can
    be made.
    """
    group = None
    for mount, name in _MOUNTS.items():
        group = mount / f"fleetgauge-test-{uuid.uuid4().hex[:8]}"
        try:
            group.mkdir()
            (group / name).write_text(str(limit_bytes))
            break
        except OSError:
            if group.is_dir():
                group.rmdir()
            group = None
    if group is None:
        pytest.skip("no control group with a limit of memory can be made here: that needs root, and cgroups mounted")
    try:
        yield ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh")
    finally:
        # Its processes have ended, but may not be reaped yet.
        wait_for(lambda: _remove(group), "a control group without processes", ignoring=(OSError,))


def _remove(group: Path) -> bool:
    group.rmdir()
    return True

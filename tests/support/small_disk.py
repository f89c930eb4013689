"""A file system of a few MiB, to be filled."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(path: Path, size_bytes: int) -> Iterator[Path]:
    """Mounts it on a new folder at `path`; skips the test where that is not allowed."""
    path.mkdir()
    mount = shutil.which("mount")
    if mount is None:
        pytest.skip("a small file system cannot be made: there is no mount command")
    command = [mount, "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(path)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"a small file system cannot be made: {made.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def fill_up(disk: Path) -> Path:
    """Takes all the room that is left; remove the file that is returned to give it back."""
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(shutil.disk_usage(disk).free))
    return ballast

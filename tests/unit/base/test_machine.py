"""Memory and open files of this process, read as the system tells them."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import PATIENCE_S

from fleetgauge.base.machine import files_for_clients, memory_bytes

PHYSICAL = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20


def machine(root: Path, groups: str, **limits: str) -> Path:
    """The files of a machine below `root`; a limit's name is its path with `__` for `/`."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for name, text in limits.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("memory_", "memory.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def test_without_control_groups_it_is_the_machines_memory(tmp_path: Path) -> None:
    assert memory_bytes(tmp_path) == PHYSICAL


@pytest.mark.parametrize(
    ("groups", "limits"),
    [
        ("0::/system.slice/fleetgauge.service\n", {"system.slice__fleetgauge.service__memory_max": str(400 * MIB)}),
        (
            "0::/a/b\n",
            {"a__b__memory_max": "max", "a__memory_max": str(400 * MIB), "memory_max": str(900 * MIB)},
        ),
        ("0::/docker/of-the-host\n", {"memory_max": str(400 * MIB)}),
        ("0::/../of-the-host\n", {"memory_max": str(400 * MIB)}),
        ("9:cpu:/x\n4:memory:/docker/1\n0::/\n", {"memory__docker__1__memory_limit_in_bytes": str(400 * MIB)}),
        ("4:cpu,memory:/docker/1\n", {"memory__memory_limit_in_bytes": str(400 * MIB)}),
    ],
    ids=["v2", "v2 of a parent", "v2 in a container", "v2 in a container of its own", "v1", "v1 in a container"],
)
def test_the_least_of_the_limits_above_it_counts(tmp_path: Path, groups: str, limits: dict[str, str]) -> None:
    assert memory_bytes(machine(tmp_path, groups, **limits)) == min(400 * MIB, PHYSICAL)


def test_no_limit_is_the_machines_memory(tmp_path: Path) -> None:
    unlimited = {"memory_max": "max", "memory__memory_limit_in_bytes": "9223372036854771712"}
    assert memory_bytes(machine(tmp_path, "4:memory:/\n0::/\n", **unlimited)) == PHYSICAL


def test_the_limit_of_open_files_is_raised_to_the_hard_one() -> None:
    script = (
        "import resource\n"
        "from fleetgauge.base.machine import first_kept_descriptor, open_files, raise_open_files\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (128, 512))\n"
        "before = open_files()\n"
        "raise_open_files()\n"
        "print(before, *resource.getrlimit(resource.RLIMIT_NOFILE), first_kept_descriptor())\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert ran.stdout.split() == ["512", "512", "512", "448"]


def test_clients_get_what_the_node_does_not_need() -> None:
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 100
    assert files_for_clients(1_000_000) == 999_744
    assert files_for_clients(100) == 75

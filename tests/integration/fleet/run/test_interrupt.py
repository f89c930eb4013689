"""Ctrl-C on a `fleet` command: one word, exit code 130, and no process left, whatever Spark is doing."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.fleet.killed_runs import QUICK_JVM
from support.waiting import PATIENCE_S, wait_for

from fleetgauge.fleet.errors import JavaError
from fleetgauge.fleet.spark.session import check_java

pytestmark = [pytest.mark.integration]

RECORDED = Path(__file__).parents[3] / "spark" / "recorded" / "sleeping"
OF_JAVA = ("NOTE: Picked up JDK_JAVA_OPTIONS", "WARNING: Using incubator modules")
"""What every start of Java says."""


def in_session(session_id: int) -> list[list[str]]:
    """The commands of a session: Spark's workers are in groups of their own, and in this one still."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            session = int((process / "stat").read_text().rsplit(")", 1)[1].split()[3])
            if session == session_id:
                found.append((process / "cmdline").read_bytes().decode(errors="replace").split("\0"))
        except OSError:  # it has ended
            continue
    return found


def spark_is_starting(group: int) -> bool:
    return any("java" in command[0] for command in in_session(group))


def a_job_is_under_way(group: int) -> bool:
    """Python workers run where a job decodes payloads."""
    return any("pyspark.daemon" in command for command in in_session(group))


@pytest.fixture(autouse=True)
def _interrupts_are_not_ignored() -> Iterator[None]:
    """A run in the background of a shell ignores them, and so would the processes that it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_while_rows_leave_this_process_is_one_word_and_exit_code_130() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "fleetgauge", "fleet", "show", "points", "--format", "json", "--source", str(RECORDED)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    with process:
        first = process.stdout.readline()  # the rest is more than a pipe holds
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert first.startswith("{")
    assert (process.returncode, err) == (130, "interrupted\n")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("command", "moment"),
    [(("show", "latency"), spark_is_starting), (("show", "latency"), a_job_is_under_way)],
)
def test_ctrl_c_is_one_word_and_exit_code_130(
    tmp_path: Path, command: tuple[str, ...], moment: Callable[[int], bool]
) -> None:
    try:
        check_java()
    except JavaError as error:
        pytest.skip(str(error))
    arguments = [part.format(tmp=tmp_path) for part in command]
    process = subprocess.Popen(
        [sys.executable, "-m", "fleetgauge", "fleet", *arguments, "--source", str(RECORDED), "--master", "local[2]"],
        env={**os.environ, **QUICK_JVM},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_for(lambda: process.poll() is not None or moment(process.pid), "the moment of the interrupt")
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole foreground group
        out, err = process.communicate(timeout=PATIENCE_S)  # until Java has closed them, too
        said = [line for line in err.splitlines() if not line.startswith(OF_JAVA)]
        assert (process.returncode, out, said) == (130, "", ["interrupted"])
        wait_for(lambda: in_session(process.pid), "the end of its processes", until=lambda found: found == [])
    finally:
        process.kill()
        process.wait()

"""Parts that run side by side in processes of this machine, which end with whoever started them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import loky
import pytest
from spark.landing_zone import LandingZone, push
from support.waiting import PATIENCE_S

from fleetgauge.fleet.arrow import RecordBatch
from fleetgauge.fleet.engines import processes
from fleetgauge.fleet.engines.engine import MAX_BAD_FILES, Batch, InProcess
from fleetgauge.fleet.engines.processes import MAX_PROCESSES, InProcesses, processes_for
from fleetgauge.fleet.errors import FleetError, LandingError

MIB = 1024 * 1024

SLEEPS = r"""
import time
from fleetgauge.fleet.engines.processes import InProcesses

def task(_):
    import os
    os.write(1, b"%d\n" % os.getpid())  # in one piece: print writes its newline apart where Python does not buffer
    time.sleep(600)

if __name__ == "__main__":
    list(InProcesses(2).map(task, range(2)))
"""


@pytest.fixture
def engine() -> Iterator[InProcesses]:
    pool = InProcesses(2)
    yield pool
    pool.close()


def pushes_of(batches: Iterable[RecordBatch]) -> list[tuple[str, str]]:
    return [(row["client_instance_id"], row["push_id"]) for rows in batches for row in rows.to_pylist()]


def test_each_process_has_all_pushes_of_its_instances_in_the_order_of_receipt(
    engine: InProcesses, tmp_path: Path
) -> None:
    zone = LandingZone(tmp_path / "landing")
    names = [f"{letter}{'A' * 21}" for letter in "-5Vfz"]
    files = [zone.write([push(client_instance_id=name) for name in names], name=f"part-{n}") for n in range(3)]
    files[1].write_bytes(files[1].read_bytes()[:-100])
    batch = Batch(number=0, files=tuple(map(str, files)))
    bad: dict[str, str] = {}
    parts = engine.make(batch, bad, pushes_of)
    assert list(bad) == [str(files[1])]
    ((*expected,),) = InProcess().make(batch, dict(bad), pushes_of)
    assert [row for part in parts for row in part] == expected
    assert [sorted({name for name, _ in part}) for part in parts] == [names[:2], names[2:]]


def test_too_many_files_that_cannot_be_read_are_an_error_and_the_next_batch_is_computed(
    engine: InProcesses, tmp_path: Path
) -> None:
    files = tuple(str(tmp_path / f"{number}.parquet") for number in range(MAX_BAD_FILES + 1))
    with pytest.raises(LandingError, match="more than 100 files cannot be read"):
        engine.make(Batch(number=0, files=files), {}, pushes_of)
    assert engine.make(Batch(number=1), {}, pushes_of) == [[], []]


def test_the_error_of_a_task_is_raised_here(engine: InProcesses) -> None:
    def task(part: int) -> int:
        raise FleetError(f"part {part}")

    with pytest.raises(FleetError, match="part 0"):
        list(engine.map(task, range(3)))


def test_a_process_that_is_killed_ends_the_run_with_one_sentence(engine: InProcesses) -> None:
    with pytest.raises(FleetError, match=r"^a process that computes was killed, .* --processes 1, or --engine spark;"):
        list(engine.map(lambda _: os.kill(os.getpid(), signal.SIGKILL), range(3)))


def test_a_signal_to_all_processes_is_left_to_the_one_that_started_them(engine: InProcesses) -> None:
    def task(part: int) -> int:
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), number)
        return part

    assert list(engine.map(task, range(3))) == [0, 1, 2]


def test_processes_end_when_the_run_is_killed_and_say_nothing(tmp_path: Path) -> None:
    script = tmp_path / "sleeps.py"
    script.write_text(SLEEPS)
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        assert all(int(run.stdout.readline()) for _ in range(2))
        run.kill()
        _, said = run.communicate(timeout=PATIENCE_S)  # ends when all that have the pipe have ended
    assert said == ""


def test_small_zones_are_read_in_this_process_and_large_ones_by_as_many_as_the_machine_bears(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    all_of_them = [1, 1, 2, MAX_PROCESSES]
    for cpus, gib, expected in (
        (1, 64, [1, 1, 1, 1]),
        (4, 64, [1, 1, 2, 4]),
        (64, 64, all_of_them),
        (64, 2, [1, 1, 2, 2]),
    ):
        monkeypatch.setattr(loky, "cpu_count", lambda cpus=cpus: cpus)
        monkeypatch.setattr(processes, "memory_bytes", lambda gib=gib: gib * 1024 * MIB)
        assert [processes_for(size) for size in (0, 15 * MIB, 16 * MIB, 1024 * MIB)] == expected
    assert [processes_for(1024 * MIB, most) for most in (1, 3, 20)] == [1, 3, 20]

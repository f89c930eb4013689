"""The kept corpus and the seeds through every target, each within its bounds; in `make soak`, fuzzing for minutes."""

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from fuzz.corpus import read_corpus
from fuzz.meter import peak_bytes_of, steps_of
from fuzz.targets import NAMES, load
from support.waiting import PATIENCE_S

FREE_STEPS = 20_000
SECONDS = int(os.environ.get("FLEETGAUGE_FUZZ_SECONDS", "120"))
"""Time for each target in `make soak`."""


@pytest.mark.parametrize("name", NAMES)
def test_what_was_ever_found_interesting_stays_within_documented_errors_and_bounds(name: str) -> None:
    target = load(name)
    inputs = [*target.seeds(), *read_corpus(name)]
    target.run(inputs[0])  # what is made once is no input's cost
    for data in inputs:
        steps = steps_of(partial(target.run, data))
        assert steps <= FREE_STEPS + target.steps_per_byte * len(data), data.hex()


@pytest.mark.parametrize("name", NAMES)
def test_no_input_takes_more_memory_than_its_bound(name: str) -> None:
    target = load(name)
    inputs = [*target.seeds(), *read_corpus(name)]
    costliest = sorted(inputs, key=lambda data: peak_bytes_of(partial(target.run, data)))[-3:]
    for data in costliest:  # once more, since what is made once is no input's cost
        assert peak_bytes_of(partial(target.run, data)) <= target.memory_bytes, data.hex()


@pytest.mark.soak
@pytest.mark.timeout(SECONDS + 600)
@pytest.mark.parametrize("name", NAMES)
def test_minutes_of_fuzzing_find_nothing(name: str, tmp_path: Path) -> None:
    findings = Path(os.environ.get("FLEETGAUGE_FUZZ_FINDINGS", tmp_path)) / name
    command = [sys.executable, str(Path(__file__).parent / "run.py"), name, str(findings), f"-max_total_time={SECONDS}"]
    run = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=SECONDS + 4 * PATIENCE_S, check=False
    )
    print(*re.findall(r"^(?:stat::number_of_executed_units.*|#\d+\s+DONE.*)$", run.stderr, re.MULTILINE), sep="\n")
    assert run.returncode == 0, f"a finding is in {findings}/findings:\n{run.stdout[-4000:]}{run.stderr[-4000:]}"

"""Every golden case is replayed: the same bytes at the same times give the same answers, rows, counters and ends."""

import pytest
from golden import case_files
from golden.scenarios import SCENARIOS


@pytest.mark.parametrize("name", case_files.names())
def test_what_was_recorded_happens_again(name: str) -> None:
    case = case_files.read(name)
    for before, now in zip(case["steps"], case_files.replay(case), strict=True):
        assert now == before, f"{name}, step {case['steps'].index(before)}: {before.get('note', before['do'])}"


def test_every_scenario_is_recorded() -> None:
    assert sorted(SCENARIOS) == case_files.names()

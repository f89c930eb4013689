"""Verdicts about real clients of three real brokers, on which faults are made outside of Fleetgauge's code.

docs/analyse/verdicts.md has the table that the long run writes to .results/reality.md.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from integration.reality.faults import ALL, BY_DEFAULT, FOUR
from integration.reality.pace import DEFAULT
from integration.reality.rounds import Outcome, make, table, write
from integration.reality.stage import Stage
from integration.reality.verdict_pipeline import Row
from support.brokers.kafka_broker import MISSING
from support.waiting import ticking

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(1_200),
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler, for a process whose clock is wrong"),
]

RESULTS = Path(__file__).parents[3] / ".results"
HOUR_S = 3_600.0


def check(outcomes: list[Outcome], strange: list[Row], stage: Stage) -> None:
    """Every verdict came, and no row that none of the faults explains."""
    missing = [f"{each.fault.verdict} {each.fault.subject}" for each in outcomes if each.found_s is None]
    print(table(outcomes))
    others = [f"{row['verdict']} {row['subject']}: {row['why']}" for row in strange]
    assert (missing, others) == ([], []), "\n".join([*missing, *others, table(outcomes), stage.pipeline.output()])


def test_four_faults_are_found_for_the_right_subjects_and_nothing_else_is(tmp_path: Path) -> None:
    with Stage(tmp_path) as stage:
        outcomes, strange = make(stage, *FOUR)
        check(outcomes, strange, stage)


@pytest.mark.timeout(2_400)
def test_four_faults_are_named_by_watch_and_console_in_the_default_configuration(tmp_path: Path) -> None:
    """Of those that need no history; `make soak-faults` makes all of them, with Fleetgauge installed as README says."""
    with Stage(tmp_path, replace(DEFAULT, history_s=0.0, delivery_s=480.0)) as stage:
        outcomes, strange = make(stage, BY_DEFAULT)
        check(outcomes, strange, stage)
        assert [each.fault.name for each in outcomes if each.console_s is None] == []


@pytest.mark.soak
def test_every_fault_is_found_for_the_right_subject_and_nothing_else_is(tmp_path: Path) -> None:
    with Stage(tmp_path) as stage:
        outcomes, strange = make(stage, *ALL)
        write(outcomes, strange, RESULTS / "reality.md")
        check(outcomes, strange, stage)


@pytest.mark.soak
@pytest.mark.timeout(int(HOUR_S) + 600)
def test_a_healthy_hour_has_no_verdict(tmp_path: Path) -> None:
    """Of the healthy clients, and of those that faults are made on, while none is."""
    with Stage(tmp_path) as stage:
        for fault in (fault for some in ALL for fault in some):
            next(fault.steps(stage, fault.library, fault.subject))
        stage.wait_for_history()
        for _ in ticking(HOUR_S, every_s=10.0):
            assert [row["why"] for row in stage.pipeline.rows()] == []

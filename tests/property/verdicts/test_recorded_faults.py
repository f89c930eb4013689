"""What real clients pushed while faults were made on them, two hours with README's subscription and default settings.

`tests/data/real_faults` is of one run of `make soak-faults`: brokers 4.3.1 with the plugin; Java 3.9.2 and 4.4.0,
librdkafka 2.16.0. In `make test` the judge is held to it whole, from the landing zone on.
"""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from support.fleet.changed_pushes import Zone, judged

RECORDED = Path(__file__).parents[2] / "data" / "real_faults"
FAULTS: list[dict[str, str]] = json.loads((RECORDED / "faults.json").read_text())
ALSO_TRUE = {("tiny-fetches", "java-3.9.2-consumer"), ("tiny-fetches", "java-4.4.0-consumer")}
"""Of healthy clients: they fetch what one producer sends record by record, 55 times a second."""

SHOWS_WITHIN_S = {"rebalance-storm": 1_800, "crash-loop": 1_800}
"""Several rebalances of a member that is away for 330 s, and several lives of 150 to 285 s, have to come first."""


@pytest.fixture(scope="module", params=[60, 300])
def rows(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The verdicts of `fleet run` with windows of this length [s]."""
    return judged(Zone.read(RECORDED), tmp_path_factory.mktemp("recorded"), request.param)


def about(row: dict[str, Any], subject: str) -> bool:
    return subject in (row["subject"], row["client_id"], row["group_id"])


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault['verdict']} {fault['subject']}")
def test_every_fault_is_named_for_its_subject_and_begins_when_it_was_made(
    fault: dict[str, str], rows: list[dict[str, Any]]
) -> None:
    named = [row for row in rows if row["verdict"] == fault["verdict"] and about(row, fault["subject"])]
    began = datetime.fromisoformat(fault["began"])
    begins = [(datetime.fromisoformat(row["opened_at"]) - began).total_seconds() for row in named]
    assert begins
    assert -300 <= min(begins) <= SHOWS_WITHIN_S.get(fault["verdict"], 600)


def test_nothing_else_is_named_but_what_follows_from_the_faults(rows: list[dict[str, Any]]) -> None:
    subjects = {fault["subject"] for fault in FAULTS if fault["verdict"] != "slow-node"}
    others = [
        row
        for row in rows
        if row["caused_by"] is None
        and (row["verdict"], row["subject"]) not in ALSO_TRUE
        and (row["verdict"], row["subject"]) != ("slow-node", "3")
        and not any(about(row, subject) for subject in subjects)
    ]
    assert [(row["verdict"], row["subject"], row["why"]) for row in others] == []

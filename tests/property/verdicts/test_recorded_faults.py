"""What real clients pushed while faults were made on them, with README's subscription and default settings.

`tests/data/real_faults` is of one run of `make soak-faults`, two hours, and `tests/data/real_pairs` of one of
`make soak-faults FAULTS=pairs`, an hour: brokers 4.3.1 with the plugin; Java 3.9.2 and 4.4.0, librdkafka 2.16.0.
`tests/data/real_long_work` has consumers of librdkafka 2.16.0 that take 12 s per record or batch after 27 minutes. In
`make test` the judge is held to them whole, from the landing zone on.
"""

import json
from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.fleet.changed_pushes import Zone, judged

DATA = Path(__file__).parents[2] / "data"
RECORDINGS = [
    *((name, window_s) for window_s in (60, 300) for name in ("real_faults", "real_pairs")),
    ("real_long_work", 60),  # it has the faults for two whole windows of 300 s, which are too few
]
"""With the length of the windows in which each is judged [s]."""
FAULTS: dict[str, list[dict[str, str]]] = {
    name: json.loads((DATA / name / "faults.json").read_text()) for name, _ in RECORDINGS
}
"""Of each recording; without a verdict where none must be given."""
CASES = [
    pytest.param(name, window_s, fault, id=f"{name} {window_s} s {fault['verdict']} {fault['subject']}")
    for name, window_s in RECORDINGS
    for fault in FAULTS[name]
    if fault["verdict"]
]
ALSO_TRUE = {("tiny-fetches", "java-3.9.2-consumer"), ("tiny-fetches", "java-4.4.0-consumer")}
"""Of healthy clients: they fetch what one producer sends record by record, 55 times a second."""

SHOWS_WITHIN_S = {"rebalance-storm": 1_800, "crash-loop": 1_800}
"""Several rebalances of a member that is away for 330 s, and several lives of 150 to 285 s, have to come first."""

Row = dict[str, Any]


@pytest.fixture(scope="module")
def rows_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], list[Row]]:
    """The verdicts of `fleet run` on a recording with windows of this length [s]."""
    return cache(lambda name, window_s: judged(Zone.read(DATA / name), tmp_path_factory.mktemp(name), window_s))


def about(row: Row, subject: str) -> bool:
    return subject in (row["subject"], row["client_id"], row["group_id"])


@pytest.mark.parametrize(("recording", "window_s", "fault"), CASES)
def test_every_fault_is_named_for_its_subject_and_begins_when_it_was_made(
    recording: str, window_s: int, fault: dict[str, str], rows_of: Callable[[str, int], list[Row]]
) -> None:
    named = [
        row
        for row in rows_of(recording, window_s)
        if row["verdict"] == fault["verdict"] and about(row, fault["subject"])
    ]
    began = datetime.fromisoformat(fault["began"])
    begins = [(datetime.fromisoformat(row["opened_at"]) - began).total_seconds() for row in named]
    assert begins
    assert -300 <= min(begins) <= SHOWS_WITHIN_S.get(fault["verdict"], 600)


@pytest.mark.parametrize(("recording", "window_s", "fault"), CASES)
def test_no_fault_is_named_as_the_cause_of_another(
    recording: str, window_s: int, fault: dict[str, str], rows_of: Callable[[str, int], list[Row]]
) -> None:
    """They are independent. What a fault does to its own client may be its cause: a slow application, of rebalances."""
    rows = rows_of(recording, window_s)
    by_reference = {f"{row['verdict']}:{row['subject_kind']}:{row['subject']}": row for row in rows}
    causes = [
        by_reference[row["caused_by"]]
        for row in rows
        if row["verdict"] == fault["verdict"] and about(row, fault["subject"]) and row["caused_by"]
    ]
    assert [row["why"] for row in causes if not about(row, fault["subject"])] == []


@pytest.mark.parametrize(("recording", "window_s"), RECORDINGS)
def test_nothing_else_is_named_but_what_follows_from_the_faults(
    recording: str, window_s: int, rows_of: Callable[[str, int], list[Row]]
) -> None:
    of_clients = [fault for fault in FAULTS[recording] if fault["verdict"] not in ("", "slow-node")]
    subjects = {fault["subject"] for fault in of_clients}
    others = [
        row
        for row in rows_of(recording, window_s)
        if row["caused_by"] is None
        and (row["verdict"], row["subject"]) not in ALSO_TRUE
        and (row["verdict"], row["subject"]) != ("slow-node", "3")
        and not any(about(row, subject) for subject in subjects)
    ]
    assert [(row["verdict"], row["subject"], row["why"]) for row in others] == []

"""The ranked list: causes first, with what they explain behind them, on terminals of any width."""

from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest

from fleetgauge.fleet.fleet import Judged
from fleetgauge.fleet.views.verdict_list import folded, print_list
from fleetgauge.terminal.table import wide_console

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
JUDGED = Judged(instances=138, begin=NOON - timedelta(hours=3), end=NOON + timedelta(hours=1))


def row(verdict: str, kind: str, subject: str, **given: Any) -> dict[str, Any]:
    own = {
        "verdict": verdict,
        "subject_kind": kind,
        "subject": subject,
        "cluster_id": "c",
        "principal": "User:ANONYMOUS",
        "client_id": None,
        "severity": "warning",
        "state": "open",
        "opened_at": NOON,
        "last_seen_at": NOON + timedelta(hours=1),
        "cleared_at": None,
        "why": f"{subject} is in trouble; since 2026-03-01 12:00 UTC",
        "action": f"Help {subject}.",
        "side": "client",
        "caused_by": None,
    }
    return own | given


THROTTLED = row("throttled", "client", "billing")
BUFFER = row("buffer-full", "client", "billing", caused_by="throttled:client:billing")
ERRORS = row("record-errors", "client", "billing", caused_by="buffer-full:client:billing")
ENDED = row("lagging", "group", "audit", state="cleared", cleared_at=NOON + timedelta(minutes=20))


def printed(*rows: dict[str, Any], width: int = 80, limit: int = 50, shows_all: bool = False) -> str:
    out = StringIO()
    print_list(wide_console(out, width=width), rows, JUDGED, limit=limit, shows_all=shows_all)
    return out.getvalue()


def test_a_verdict_says_whose_it_is_but_for_clients_without_a_name() -> None:
    assert "client billing of User:billing  since" in printed(THROTTLED | {"principal": "User:billing"})
    for nobody in (None, "", "User:ANONYMOUS"):
        assert "client billing  since" in printed(THROTTLED | {"principal": nobody})


def test_consequences_of_consequences_are_folded_under_the_first_cause() -> None:
    (cause, other) = folded([THROTTLED, BUFFER, ENDED, ERRORS])
    assert (cause.row, cause.explains) == (THROTTLED, [BUFFER, ERRORS])
    assert (other.row, other.explains) == (ENDED, [])


@pytest.mark.parametrize(
    "cause",
    [
        THROTTLED | {"cluster_id": "d"},
        THROTTLED
        | {"state": "cleared", "opened_at": NOON - timedelta(hours=9), "cleared_at": NOON - timedelta(hours=8)},
    ],
    ids=["of another cluster", "that ended before"],
)
def test_a_namesake_is_no_cause(cause: dict[str, Any]) -> None:
    assert [each.row for each in folded([cause, BUFFER])] == [cause, BUFFER]


def test_a_consequence_whose_cause_is_not_listed_stands_alone_and_names_it() -> None:
    text = printed(BUFFER)
    assert "1 open, 0 cleared." in text
    assert "Caused by throttled:client:billing" in text


@pytest.mark.parametrize("width", [40, 80, 140])
def test_every_width_shows_who_why_and_what_to_do(width: int) -> None:
    text = printed(THROTTLED, BUFFER, ENDED, width=width)
    assert max(map(len, text.splitlines())) <= width
    joined = " ".join(text.split())
    assert "1 warning throttled client billing since 03-01 12:00, 60 min" in joined
    assert "billing is in trouble Do (client): Help billing." in joined
    assert "Explains 1 buffer-full (--all lists them)" in joined
    assert "2 cleared lagging group audit 03-01 12:00 to 12:20, 20 min" in joined
    assert "Help audit" not in joined


def test_consequences_are_listed_when_asked_for() -> None:
    text = printed(THROTTLED, BUFFER, shows_all=True, width=200)
    assert "- buffer-full client billing, since 03-01 12:00, 60 min: billing is in trouble" in text


def test_open_verdicts_come_before_cleared_ones_and_the_rest_is_counted() -> None:
    text = printed(ENDED, THROTTLED, limit=1)
    assert "throttled" in text
    assert "lagging" not in text
    assert "1 more of 2: raise --limit" in text


def test_clusters_are_named_where_there_are_several() -> None:
    assert "in cluster" not in printed(THROTTLED, ENDED)
    assert "in cluster d" in printed(THROTTLED, ENDED | {"cluster_id": "d"})


def test_an_empty_list_is_one_line_that_says_what_was_judged() -> None:
    (line,) = printed(width=200).splitlines()
    assert line == (
        "No verdicts. Judged: 138 client instances from 2026-03-01 09:00 to 2026-03-01 13:00 UTC. "
        "What cannot be judged: --coverage."
    )


def test_a_client_that_calls_itself_a_terminal_command_is_shown_by_its_escape() -> None:
    hostile = "orders\x1b[2J"
    text = printed(row("throttled", "client", hostile), width=140)
    assert "\x1b" not in text
    assert text.count("orders\\x1b[2J") == 3


def test_one_client_instance_is_one() -> None:
    assert str(Judged(instances=1, begin=NOON, end=NOON)).startswith("1 client instance from ")
    assert str(JUDGED).startswith("138 client instances from ")

"""Plans and lists as an operator and a pipeline read them; names are whatever clients chose."""

import io
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from support.subscriptions import by_name, plan

from fleetgauge.cli.cluster.subscriptions_text import list_answer, one_answer, plan_as_json, print_plan
from fleetgauge.cluster.subscriptions.clients import Client
from fleetgauge.cluster.subscriptions.resources import Resource
from fleetgauge.console.api.subscriptions import rows_of
from fleetgauge.terminal.table import wide_console

HOSTILE = Client(
    instance_id="TaPBdoXKTJC6sSpzRYxDbA",
    client_id="</script>\x1b[2J\n\u202e" + "a" * 10_000,
    software_name="soft\x1fware",
    software_version="\x9b1",
    principal="User:[bold]x[/bold]",
)
ALL = Resource(name="all\x1b[1m", metrics=("*",), interval_ms=60_000)
ROW = {
    "verdict": "crash-loop",
    "state": "open",
    "subject_kind": "instance",
    "subject": HOSTILE.instance_id,
    "severity": "critical",
    "why": "it crashes\x1b[2J",
}
UNTIL = Resource(name="all\x1b[1m.until.20261123T184500Z", match="client_instance_id=none")


def test_nothing_that_a_client_chose_reaches_the_terminal_as_a_command() -> None:
    out = io.StringIO()
    planned = plan([], [ALL], [HOSTILE], findings=[ROW])
    print_plan(wide_console(out), planned, "", names=True)
    list_answer(by_name([ALL, UNTIL]), [HOSTILE], "").text(wide_console(out))
    one_answer(ALL, by_name([ALL, UNTIL]), [HOSTILE], "", names=True).text(wide_console(out))
    text = out.getvalue()
    assert all(line.isprintable() for line in text.splitlines())
    assert max(map(len, text.splitlines())) < 1_000
    assert "User:[bold]x[/bold]" in text
    assert "crash-loop instance TaPBdoXKTJC6sSpzRYxDbA: it crashes" in text
    assert "2026-11-23 18:45:00" in text


def test_a_deadline_that_has_passed_is_overdue_wherever_it_is_shown() -> None:
    passed = Resource(name="all.until.20201123T184500Z", match="client_instance_id=none")
    to_come = Resource(name="all.until.29991123T184500Z", match="client_instance_id=none")
    subscription, now = Resource(name="all", metrics=("*",)), datetime.now(UTC)
    for marker, is_overdue in ((passed, True), (to_come, False)):
        out, resources = io.StringIO(), by_name([subscription, marker])
        list_answer(resources, [], "").text(wide_console(out))
        one_answer(subscription, resources, [], "", names=False).text(wide_console(out))
        assert out.getvalue().count("18:45:00, overdue") == (2 if is_overdue else 0)
        assert out.getvalue().count("no process takes it back") == (2 if is_overdue else 0)
        (row,) = rows_of(resources, [], now)
        assert row["overdue"] is is_overdue
        assert (row["until"] < now.timestamp() * 1e6) is is_overdue


def test_json_names_every_client_exactly_and_only_when_asked() -> None:
    clients = [replace(HOSTILE, client_id=f"c-{number}") for number in range(500)]
    planned = plan([], [ALL], clients, findings=[ROW])
    whole = json.loads(json.dumps(plan_as_json(planned, names=True)))
    assert [each["client_id"] for each in whole["changes"][0]["matching"]] == [each.client_id for each in clients]
    assert whole["has_changes"] is True
    assert whole["changes"][0]["after"] == {"name": ALL.name, "metrics": ["*"], "interval.ms": 60_000, "match": ""}
    assert whole["added"]["pushes_per_minute"] == pytest.approx(500)
    assert whole["open_verdicts"][0]["why"] == ROW["why"]
    short = plan_as_json(planned, names=False)
    assert "matching" not in short["changes"][0]
    assert (short["changes"][0]["clients"], short["cannot_supply"][0]["clients"]) == (500, 500)


def test_without_a_source_of_clients_none_are_counted() -> None:
    out = io.StringIO()
    print_plan(wide_console(out), plan([], [ALL], []), "No live clients are known", names=False)
    list_answer(by_name([ALL]), [], "No live clients are known").text(wide_console(out))
    assert "of 0 live clients" not in out.getvalue()
    assert out.getvalue().count("No live clients are known") == 2


def test_a_difference_is_shown_by_what_differs() -> None:
    out = io.StringIO()
    before = Resource(name="a", metrics=("x.", "y."), interval_ms=60_000, match="client_id=b")
    after = Resource(name="a", metrics=("x.", "z."), interval_ms=30_000)
    print_plan(wide_console(out), plan([before], [after], []), "", names=False)
    lines = [line.strip() for line in out.getvalue().splitlines()]
    assert lines[:4] == ["~ a", "metrics +z., -y.", "interval 1.0 min -> 30.0 s", "match client_id=b -> every client"]

"""`fleetgauge log dead` where no node runs: it reads the table itself, and says in a sentence what it cannot do."""

import base64
import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.payloads.payloads import metrics_data
from support.programs.push_log import push_record
from support.waiting import PATIENCE_S, wait_for
from typer.testing import CliRunner, Result

from fleetgauge.base.clock import SystemTime
from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.cli import app
from fleetgauge.exporters.dead_letters.letter import DeadLetterSettings
from fleetgauge.exporters.dead_letters.store import DeadLetters
from fleetgauge.exporters.exporter import Refusal
from fleetgauge.node import audit


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with three letters of the collector and one of a landing zone, whose client wrote an escape."""
    settings = DeadLetterSettings(path=tmp_path / "dead-letters.db")
    with closing(DeadLetters(settings, SystemTime())) as letters:
        for number in range(3):
            record = push_record(number, metrics_data() if number else b"\xff\xff")
            letters.put("collector", [Refusal(record=record, reason="invalid_argument", detail="no name")])
        odd = push_record(9, client_id="evil\x1b[2J")
        letters.put("landing", [Refusal(record=odd, reason="bad_record", detail="\x1b[31m")])
    return tmp_path


def run(data: Path, *arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["log", "dead", *arguments, "--log-dirs", str(data)])


@pytest.fixture(autouse=True)
def _no_audit_log_of_another_test() -> Iterator[None]:
    audit.reset()
    yield
    audit.reset()


def refusal_of(result: Result) -> str:
    assert isinstance(result.exception, FleetgaugeError), result.output
    return str(result.exception)


def test_the_list_names_who_refused_what_and_why(data: Path) -> None:
    table = run(data).stdout
    assert table.count("invalid_argument") == 3
    assert "no name" in table
    assert "\x1b" not in table, "what strangers wrote commands no terminal"
    assert run(data, "--exporter", "landing").stdout.count("bad_record") == 1
    assert run(data, "--reason", "nothing").stdout == "There are no such dead letters.\n"


def test_as_json_it_is_one_object_a_line_the_newest_first(data: Path) -> None:
    found = [json.loads(line) for line in run(data, "-f", "json", "-e", "collector", "-n", "2").stdout.splitlines()]
    assert [each["client_id"] for each in found] == ["client-2", "client-1"]
    assert {"id", "exporter", "reason", "detail", "refused_at", "times", "push_id", "metrics_bytes"} <= set(found[0])
    assert "metrics" not in found[0]


def test_one_is_shown_whole_with_its_metrics_or_their_first_bytes(data: Path) -> None:
    assert '"name": "org.apache.kafka.producer' in run(data, "show", "2").stdout
    assert "metrics that cannot be read, beginning with ff ff" in run(data, "show", "1").stdout
    told = json.loads(run(data, "show", "2", "--format", "json").stdout)
    assert base64.b64decode(told["metrics_base64"]) == metrics_data()
    assert refusal_of(run(data, "show", "77")) == "there is no dead letter 77; fleetgauge log dead lists them"


def test_a_replay_without_a_node_waits_and_says_so(data: Path) -> None:
    asked = run(data, "replay", "-e", "collector", "--wait", "0")
    assert asked.exit_code == 1
    assert "delivered 0, refused again 0, waiting 3" in asked.output
    assert "delivered once the exporter runs" in asked.output
    assert run(data, "-e", "collector").stdout.count("replay asked for") == 3
    assert refusal_of(run(data, "replay", "-e", "colector")) == (
        "there are no dead letters of exporter colector; collector has 3, landing has 1"
    )


def damage(data: Path, number: int) -> None:
    with closing(sqlite3.connect(data / "dead-letters.db")) as connection, connection:
        connection.execute("UPDATE letters SET metrics = zeroblob(length(metrics)) WHERE id = ?", (number,))


def test_of_a_replay_only_that_is_called_delivered_which_was(data: Path) -> None:
    """Of four letters one is delivered, one is dropped by a colleague, one refused again, and one cannot be read."""
    refused = Refusal(record=push_record(7, metrics_data()), reason="invalid_argument", detail="no name")

    def deliver() -> None:
        with closing(DeadLetters(DeadLetterSettings(path=data / "dead-letters.db"), SystemTime())) as letters:
            wait_for(letters.asked, "a replay to be asked for")
            taken = letters.replayable("collector", 1 << 20, 100)
            letters.drop("collector", ids=[taken[1].id])
            letters.put("collector", [refused])
            letters.delivered("collector", [taken[0].record.push_id])

    with closing(DeadLetters(DeadLetterSettings(path=data / "dead-letters.db"), SystemTime())) as letters:
        letters.put("collector", [refused])
    damage(data, 3)
    exporter = threading.Thread(target=deliver, daemon=True)
    exporter.start()
    asked = run(data, "replay", "-e", "collector", "--wait", f"{PATIENCE_S:.0f}")
    exporter.join(PATIENCE_S)
    assert "\ndelivered 1, refused again 1, waiting 0, unreadable 1, gone 1\n" in asked.output
    assert asked.exit_code == 1


def test_a_damaged_letter_is_listed_and_can_be_dropped_but_not_shown(data: Path) -> None:
    damage(data, 2)
    table = run(data).stdout
    assert table.count("invalid_argument") == 3
    assert "unreadable: the push cannot be read" in table
    listed = [json.loads(line) for line in run(data, "-f", "json", "-e", "collector").stdout.splitlines()]
    assert ["problem" in each for each in listed] == [False, True, False]
    assert refusal_of(run(data, "show", "2")).startswith("dead letter 2 is damaged: the push cannot be read")
    assert run(data, "drop", "-e", "collector", "--id", "2").stdout == "dropped 1\n"


def test_nothing_is_dropped_unless_it_is_named(data: Path) -> None:
    assert "name what to drop" in refusal_of(run(data, "drop", "-e", "collector"))
    assert run(data, "drop", "-e", "collector", "--id", "1").stdout == "dropped 1\n"
    assert run(data, "drop", "-e", "landing", "--reason", "bad_record").stdout == "dropped 1\n"
    lines = [json.loads(line) for line in (data / "audit.log").read_text().splitlines()]
    assert [(each["event"], each["exporter"], each["ids"], each["letters"]) for each in lines] == [
        ("dead_letters.dropped", "collector", [1], 1),
        ("dead_letters.dropped", "landing", ["reason=bad_record"], 1),
    ]
    assert lines[0]["principal"].startswith("os:")
    assert run(data, "drop", "-e", "collector", "--all").stdout == "dropped 2\n"
    assert run(data).stdout == "There are no dead letters.\n"


def test_options_before_the_command_are_not_ignored_in_silence(data: Path) -> None:
    wrong = CliRunner().invoke(app, ["log", "dead", "--log-dirs", str(data), "show", "1"])
    assert refusal_of(wrong) == "options go behind the command: fleetgauge log dead show ..."


def test_where_no_node_has_run_there_is_nothing_and_nothing_is_made(tmp_path: Path) -> None:
    assert "no destination has rejected a push yet" in refusal_of(run(tmp_path))
    assert not list(tmp_path.iterdir())

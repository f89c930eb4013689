"""`fleet watch` over a growing landing zone: verdicts open and clear, each at least once, through stops and kills."""

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import pytest
from deltalake.exceptions import TableNotFoundError
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from spark.landing_zone import NOON_US, LandingZone, push
from support.fleet.standing_tables import rows
from support.proxies.trickling import HEAD, trickling
from support.receivers.alertmanager import Alertmanager, missing_tools
from support.receivers.json_receiver import JsonReceiver, listening
from support.waiting import PATIENCE_S, wait_for
from typer.testing import CliRunner
from unit.fleet.decode import dialect_payloads as dialect

from fleetgauge.cli.fleet.app import app
from fleetgauge.exporters.group_offsets.zone import FOLDER

pytestmark = pytest.mark.integration

S = 1_000_000
PATHOLOGIES = "slow-node:30m..60m,slow-processing:30m..60m,crash-loop:30m..60m,throttled:30m..60m"
RULES = """
[rules.slow]
metric = "org.apache.kafka.producer.node.request.latency.max"
above = 5000
severity = "critical"
text = "{client_id} waits {value} ms for broker {node_id}"

[rules.orders-open]
custom_metric = "com.example.orders.open"
above = 10
"""


@pytest.fixture
def zone(tmp_path: Path) -> LandingZone:
    (tmp_path / "zone").mkdir()
    return LandingZone(root=tmp_path / "zone")


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.toml"
    path.write_text(RULES)
    return path


def write(zone: LandingZone, minute: int, payload: bytes, client_id: str = "checkout\x1b[2J") -> None:
    """One push of a minute; as the exporter does, the file is there whole or not at all."""
    row = push(payload, received_at=NOON_US + minute * 60 * S + S, push_interval_ms=60_000, client_id=client_id)
    hidden = zone.write([row], name=f"_part-{minute}")
    hidden.rename(hidden.with_name(f"part-{minute}.parquet"))


def slow(zone: LandingZone, minute: int, latency_max: float) -> None:
    write(zone, minute, dialect.java_producer({"node-1": latency_max / 2}))


def arguments(zone: LandingZone, tables: Path, rules: Path, *more: str) -> list[str]:
    return [
        *("watch", "--source", str(zone.root), "--tables", str(tables), "--rules", str(rules)),
        *("--window", "60s", "--late", "0s", "--since", "2026-03-01", "--format", "json", *more),
    ]


T = TypeVar("T")


class Watch:
    """A watch in a process of its own."""

    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fleetgauge.cli.fleet.app", *command, "--trigger", "200ms"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self.notes: list[str] = []
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout,)),
            threading.Thread(target=self.notes.extend, args=(self.process.stderr,)),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, out: IO[str]) -> None:
        for line in out:
            self._lines.put(line)

    def wait_for(self, read: Callable[[], T], what: str, until: Callable[[T], object] = bool) -> T:
        """`wait_for`, while this watch runs; what is read may be a table that is not there yet."""

        def read_while_it_runs() -> T:
            assert self.process.poll() is None, "".join(self.notes)
            return read()

        return wait_for(read_while_it_runs, what, until=until, ignoring=(TableNotFoundError,))

    def next(self) -> dict[str, Any]:
        """The next change."""
        try:
            found: dict[str, Any] = json.loads(self._lines.get(timeout=PATIENCE_S))
        except queue.Empty:
            raise AssertionError("".join(self.notes)) from None
        return found

    def stop(self) -> str:
        """By SIGTERM; its last line."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE_S) == 0, "".join(self.notes)
        self.close()
        assert self._lines.empty()
        return self.notes[-1]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()


@contextmanager
def watching(*command: str) -> Iterator[Watch]:
    watch = Watch(*command)
    try:
        yield watch
    finally:
        watch.close()


def test_a_running_watch_delivers_what_opens_and_clears_over_restarts(
    zone: LandingZone, rules: Path, tmp_path: Path
) -> None:
    tables = tmp_path / "tables"
    command = arguments(zone, tables, rules)
    zone.root.rmdir()
    with watching(*command) as watch:
        watch.wait_for(lambda: watch.notes, "a note")
        assert watch.notes[0].startswith(f"there is no landing zone at {zone.root}")
        assert watch.notes[0].endswith(": retrying\n")
        zone.root.mkdir()
        slow(zone, 0, 6_000)
        slow(zone, 1, 6_000)  # the first minute is over
        opened = watch.next()
        last = watch.stop()
    assert (opened["change"], opened["verdict"], opened["severity"]) == ("opened", "slow", "critical")
    assert opened["why"] == "checkout\x1b[2J waits 6,000 ms for broker 1; since 2026-03-01 12:00 UTC"
    assert last == "stopped: 1 verdicts are open; the next start continues from here\n"
    assert [note for note in watch.notes if "; 1 verdicts opened, 0 cleared, 1 open; " in note]
    slow(zone, 2, 10)
    slow(zone, 3, 10)
    with watching(*command) as watch:
        cleared = watch.next()
        shown = CliRunner().invoke(app, ["verdicts", "--tables", str(tables), "--format", "json"])
        watch.stop()
    assert (cleared["id"], cleared["change"]) == (opened["id"], "cleared")
    assert cleared["cleared_at"] == "2026-03-01T12:02:00.000Z"
    (row,) = json.loads(shown.stdout)
    assert {"id": opened["id"], "change": "cleared", **row} == cleared


class Killer(JsonReceiver):
    """Kills who posts, before it has an answer."""

    def __init__(self) -> None:
        super().__init__(200)
        self.victim: subprocess.Popen[str] | None = None

    def answered(self) -> None:
        if self.victim is not None:
            self.victim.kill()
            self.victim.wait()


def test_a_kill_between_delivery_and_its_note_delivers_again_under_the_same_id(
    zone: LandingZone, rules: Path, tmp_path: Path
) -> None:
    slow(zone, 0, 6_000)
    slow(zone, 1, 6_000)
    killer, command = Killer(), arguments(zone, tmp_path / "tables", rules)
    with watching(*command) as watch:
        watch.next()
        watch.wait_for(lambda: delivered(tmp_path / "tables"), "the note of what was delivered")
        watch.stop()
    with listening(receiver=killer):
        command += ["--webhook", killer.url]
        with watching(*command) as watch:
            killer.victim = watch.process
            assert watch.process.wait(PATIENCE_S) == -signal.SIGKILL
        killer.victim = None
        with watching(*command) as watch:
            watch.wait_for(lambda: killer.bodies, "a second post", lambda bodies: len(bodies) > 1)
            watch.wait_for(
                lambda: delivered(tmp_path / "tables"),
                "the note of what was delivered to both",
                lambda destinations: len(destinations) > 1,
            )
            assert watch.stop().startswith("stopped: 1 verdicts are open")
        with watching(*command) as watch:
            slow(zone, 2, 10)
            slow(zone, 3, 10)
            watch.wait_for(lambda: killer.bodies, "a third post", lambda bodies: len(bodies) > 2)
            watch.next()
            watch.stop()
    changes = [change for body in killer.bodies for change in body["verdicts"]]
    assert [change["change"] for change in changes] == ["opened", "opened", "cleared"]
    assert len({change["id"] for change in changes}) == 1


def test_headers_may_stand_in_the_environment(
    zone: LandingZone, rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(zone, 0, 6_000)
    slow(zone, 1, 6_000)
    monkeypatch.setenv("FLEETGAUGE_WATCH_WEBHOOK_HEADER", "Authorization: Bearer abc\nX-Team: shop")
    with listening(200) as receiver:
        command = [*arguments(zone, tmp_path / "tables", rules), "--once", "--webhook", receiver.url]
        assert CliRunner().invoke(app, command).exit_code == 0
    assert (receiver.headers[0]["Authorization"], receiver.headers[0]["X-Team"]) == ("Bearer abc", "shop")


def delivered(tables: Path) -> set[str]:
    """The destinations that have got something."""
    return {row["destination"] for row in rows(tables, "delivered") if row["id"]}


def test_a_webhook_whose_answer_has_no_end_holds_up_neither_the_others_nor_the_end(
    zone: LandingZone, rules: Path, tmp_path: Path
) -> None:
    slow(zone, 0, 6_000)
    slow(zone, 1, 6_000)
    with trickling(HEAD) as hook, listening(200) as alertmanager:
        more = ("--webhook", f"http://{hook.address}/hook", "--alertmanager", alertmanager.address)
        with watching(*arguments(zone, tmp_path / "tables", rules, *more)) as watch:
            opened = watch.next()
            watch.wait_for(lambda: hook.asked and alertmanager.bodies, "a post to both")
            slow(zone, 2, 10)
            slow(zone, 3, 10)
            cleared = watch.next()
            assert (opened["change"], cleared["change"], cleared["id"]) == ("opened", "cleared", opened["id"])
            watch.wait_for(lambda: alertmanager.bodies[-1][0]["endsAt"] == cleared["cleared_at"], "the alert's end")
            assert watch.stop().startswith("stopped: 0 verdicts are open")


@pytest.mark.skipif(bool(missing_tools()), reason=missing_tools())
def test_a_real_alertmanager_takes_verdicts_for_open_until_they_clear(
    zone: LandingZone, rules: Path, tmp_path: Path
) -> None:
    slow(zone, 0, 6_000)
    slow(zone, 1, 6_000)
    with Alertmanager(tmp_path) as alertmanager:
        command = [*arguments(zone, tmp_path / "tables", rules), "--alertmanager", f"{alertmanager.url}/"]
        done = CliRunner().invoke(app, [*command, "--once"])
        assert done.exit_code == 0, done.output
        opened = json.loads(done.stdout)
        (alert,) = wait_for(alertmanager.active, "an alert")
        assert alert["labels"] == {
            "alertname": "slow",
            "severity": "critical",
            "cluster_id": "c",
            "subject_kind": "instance",
            "subject": opened["subject"],
            "principal": "User:ANONYMOUS",
            "client_id": "checkout\x1b[2J",
            "verdict_id": opened["id"],
        }
        assert alert["annotations"]["summary"] == opened["why"]
        assert alert["startsAt"] == opened["opened_at"]
        first_end = alert["endsAt"]
        assert CliRunner().invoke(app, [*command, "--once"]).exit_code == 0
        (again,) = wait_for(
            alertmanager.active,
            "the same alert, which is repeated, and so lasts",
            until=lambda found: [each["endsAt"] > first_end for each in found] == [True],
        )
        assert again["fingerprint"] == alert["fingerprint"]
        slow(zone, 2, 10)
        slow(zone, 3, 10)
        done = CliRunner().invoke(app, [*command, "--once"])
        assert json.loads(done.stdout)["change"] == "cleared"
        wait_for(alertmanager.active, "no alert", until=lambda found: found == [])


def test_metrics_of_an_application_alone_are_judged_by_watch_and_run_alike(
    zone: LandingZone, rules: Path, tmp_path: Path
) -> None:
    for minute, value in enumerate([5, 20, 5]):
        data = MetricsData()
        dialect.java_metric(data, "com.example.orders.open", value, {}, resource={})
        write(zone, minute, data.SerializeToString(), client_id="orders")
    done = CliRunner().invoke(app, [*arguments(zone, tmp_path / "watched", rules), "--once", "--no-progress"])
    assert (done.exit_code, done.stderr) == (0, "")
    change = json.loads(done.stdout)
    assert (change["change"], change["verdict"], change["client_id"]) == ("opened", "orders-open", "orders")
    assert change["why"].startswith("com.example.orders.open of orders is 20, above 10; since 2026-03-01 12:01")
    run = [
        "run",
        "--source",
        str(zone.root),
        "--tables",
        str(tmp_path / "run"),
        "--rules",
        str(rules),
        "--window",
        "60s",
    ]
    assert CliRunner().invoke(app, run).exit_code == 0
    (row,) = rows(tmp_path / "run", "verdicts")
    assert (row["verdict"], row["client_id"], row["state"]) == ("orders-open", "orders", "cleared")


def test_verdicts_are_the_same_however_a_fleet_comes_in(tmp_path: Path) -> None:
    """And none opens for want of the rest of a window: each that is delivered is in the table."""
    fleet = ["--clients", "60", "--hours", "1.7", "--seed", "5"]
    made = CliRunner().invoke(app, ["simulate", str(tmp_path / "sim"), *fleet, "--with", PATHOLOGIES])
    assert made.exit_code == 0, made.output
    whole = tmp_path / "sim" / "landing"
    # Samples that come after the pushes of their windows change what was delivered about these: they go first.
    files = sorted(whole.rglob("*.parquet"), key=lambda file: (FOLDER not in file.parts, file))
    ids: dict[str, str] = {}
    for file in files[:-1]:
        show(file, whole, tmp_path / "growing")
        ids |= states_of("watch", tmp_path / "growing", tmp_path / "by file")
    shutil.copytree(tmp_path / "by file", tmp_path / "watch, then run")
    show(files[-1], whole, tmp_path / "growing")
    ids |= states_of("watch", tmp_path / "growing", tmp_path / "by file")
    assert ids == states_of("watch", whole, tmp_path / "at once")
    states_of("run", tmp_path / "growing", tmp_path / "watch, then run")
    states_of("run", whole, tmp_path / "run", "--window", "60s")  # as the watch has them
    for found, expected in (("by file", "at once"), ("watch, then run", "run")):
        wanted = rows(tmp_path / expected, "verdicts")
        assert len(wanted) > 3
        assert rows(tmp_path / found, "verdicts") == wanted, found


def show(file: Path, whole: Path, growing: Path) -> None:
    """Has a file come into the zone that grows."""
    target = growing / file.relative_to(whole)
    target.parent.mkdir(parents=True, exist_ok=True)
    os.link(file, target)


def states_of(command: str, zone: Path, tables: Path, *more: str) -> dict[str, str]:
    """Of the verdicts that a command delivers, by their ids."""
    options = ["--source", str(zone), "--tables", str(tables), "--format", "json"]
    once = ["--once", "--since", "2000-01-01", "--consequences"] if command == "watch" else []
    done = CliRunner().invoke(app, [command, *options, *once, *more])
    assert done.exit_code == 0, done.output
    changes = map(json.loads, done.stdout.splitlines()) if command == "watch" else ()
    return {change["id"]: change["state"] for change in changes}

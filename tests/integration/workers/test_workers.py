"""`workers=2`: two listener processes that are one node to its clients and to its operator, and that come and go."""

import contextlib
import json
import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from support.clients.pusher import Pusher
from support.clients.raw_client import RawClient
from support.fleet.landing import landed
from support.http import get
from support.payloads.payloads import metrics_data
from support.programs.node import Node, run_cli
from support.waiting import PATIENCE_S, wait_for
from typer.testing import CliRunner

from fleetgauge.cli import app
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.status.node_socket import ask
from fleetgauge.push_log.embedded.inspect import holds_pushes
from fleetgauge.telemetry.push_record import format_instance_id

pytestmark = pytest.mark.integration

INTERVAL_MS = 1_000
REPORTER = "metric.reporters=integration.workers.printing_reporter.PrintingReporter"
EXPORTS = "kafka_server_client_metrics_plugin_export_count"
SUBSCRIPTION = f'[client-metrics.all]\nmetrics = "*"\ninterval.ms = {INTERVAL_MS}\n'


def landing(path: Path) -> str:
    return f'[exporters.landing]\ntype = "landing"\npath = "{path}"\nlinger.ms = 200\n'


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    path = tmp_path_factory.mktemp("workers")
    options = ("workers=2", "http.listeners=http://127.0.0.1:0", "telemetry.client.instance.metrics.max=1000", REPORTER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # for the reporter
        with Node(path, *options, config=SUBSCRIPTION + landing(path / "landing")) as started:
            yield started
            # A worker that does not answer in time is shown as it was before.
            status = started.wait_for(lambda s: all(each["serves"] for each in s["workers"]), what="both workers")
            logged = status["push_log"]["logged"]
            assert started.stop() == 0, started.output()  # SIGTERM: workers stop, then the exporters deliver it all
            assert len(landed(path / "landing")) == logged > 0


def worker_of(node: Node, client: RawClient) -> int:
    """Which worker has a connection, by the port that it comes from."""
    port = client.socket.getsockname()[1]
    for number in (1, 2):
        rows = rows_of(node, number)
        if any(row[6] == port for row in rows):
            return number
    raise AssertionError(f"no worker knows a client at port {port}")


def cli(node: Node, *arguments: str) -> str:
    """What a command prints about the node."""
    done = CliRunner().invoke(app, [*arguments, "--log-dirs", str(node.data)], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.output


def rows_of(node: Node, number: int) -> list[list[Any]]:
    socket = DataDirectory(node.data).worker(number).node_socket
    return [row for answer in ask(socket, {"ask": "clients", "filter": {}}) for row in answer["rows"]]


def real_clients(node: Node, number: int) -> set[str]:
    """The real clients that a worker knows."""
    return {row[1] for row in rows_of(node, number) if row[1].startswith("real-")}


def wait_for_real_clients(node: Node, number: int) -> None:
    """Waits until the workers know so many."""
    wait_for(
        lambda: real_clients(node, 1) | real_clients(node, 2),
        f"a Get of each of {number} clients",
        until=lambda known: len(known) == number,
    )


@contextlib.contextmanager
def clients_of_both_workers(node: Node) -> Iterator[tuple[RawClient, RawClient]]:
    """A connection to each worker; Linux chooses by a hash of the ports, so that some have to be tried."""
    with contextlib.ExitStack() as stack:
        found: dict[int, RawClient] = {}
        for _ in range(200):
            client = stack.enter_context(RawClient(node.port))
            client.get()
            found.setdefault(worker_of(node, client), client)
            if len(found) == 2:
                yield found[1], found[2]
                return
    raise AssertionError("200 connections came to one worker")


def clients(node: Node, **query: str) -> dict[str, dict[str, Any]]:
    answer = get(node, "/clients", headers=None, **query)
    return {row["client_instance_id"]: row for row in answer.json()["clients"]}


def samples(node: Node) -> dict[str, float]:
    lines = get(node, "/metrics").body.decode().splitlines()
    found = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    assert len({name for name, _, _ in found}) == len(found), "a series stands there twice"
    return {name: float(value) for name, _, value in found}


def test_a_client_may_ask_one_worker_and_push_to_another(node: Node) -> None:
    """As Java clients of today do: a Get on one connection, pushes on another."""
    instance_id = uuid.uuid4()
    with clients_of_both_workers(node) as (one, other):
        subscription = one.get(instance_id)
        assert (
            one.push(subscription, metrics_data(), subscription_id=subscription.subscription_id + 1).error_code == 117
        )
        assert other.push(subscription, metrics_data(), instance_id=instance_id).error_code == 0
        assert one.get(instance_id).subscription_id == subscription.subscription_id
        row = wait_for(
            lambda: clients(node, instance_id=str(instance_id))[format_instance_id(instance_id)],
            "a push, a refusal and two connections of the client",
            until=lambda row: (row["pushes"], row["refused"], row["connections"]) == (1, 1, 2),
            ignoring=(KeyError,),
        )
    assert row["state"] in ("live", "late")  # to the worker that was asked last it is new
    assert row["last_error"] == "UNKNOWN_SUBSCRIPTION_ID"


def test_an_operator_sees_one_node(node: Node) -> None:
    """Real clients on both workers: each is listed once, and what the workers counted is added up."""
    producers = []
    try:
        for number in range(24):
            producers.append(Producer({"bootstrap.servers": f"127.0.0.1:{node.port}", "client.id": f"real-{number}"}))
            # One after the other: clients that start together would only make the machine slow.
            wait_for_real_clients(node, number + 1)
            if number >= 5 and all(real_clients(node, worker) for worker in (1, 2)):
                break
        names = {f"real-{number}" for number in range(len(producers))}
        wait_for(
            lambda: {
                row["client_id"] for row in clients(node, client_id="real-*", limit="500").values() if row["pushes"]
            },
            "a push of each client",
            until=lambda pushed: pushed == names,
        )
        assert all(real_clients(node, worker) for worker in (1, 2))
        listed = [row["client_id"] for row in clients(node, client_id="real-*", limit="500").values()]
        assert sorted(listed) == sorted(names)
        shown = cli(node, "clients", "--client-id", "real-*", "--format", "json")
        assert shown.count('"client_id":"real-') == len(names)
        own = {name: value for name, value in samples(node).items() if name.startswith(f"{EXPORTS}{{")}
        assert len(own) >= len(names)
        assert samples(node)[EXPORTS] >= sum(own.values()) >= len(names)  # the clients go on pushing meanwhile
    finally:
        for producer in producers:
            producer.flush(0)
        del producer, producers
    status = node.wait_for(
        lambda s: (
            sum(each["logged"] for each in s["workers"])
            == s["push_log"]["logged"]
            == s["telemetry"]["push_answers"]["NONE"]
        ),
        what="the sums of both",
    )
    logged = [worker["logged"] for worker in status["workers"]]
    assert all(logged)
    table = cli(node, "status")
    assert "worker 1 " in table
    assert "worker 2 " in table
    both_up = {f'fleetgauge_worker_up{{worker="{number}"}}': 1 for number in (1, 2)}
    wait_for(
        lambda: {name: value for name, value in samples(node).items() if name in both_up},
        "both workers to be up",
        until=lambda up: up == both_up,
    )
    assert samples(node)["fleetgauge_push_log_logged_total"] >= sum(logged)
    ready = {"ready": True, "reasons": [], "degraded": []}
    wait_for(lambda: get(node, "/readyz").json(), str(ready), until=lambda answer: answer == ready)
    wait_for(
        lambda: len(landed(node.directory / "landing")),
        "the pushes of both in one zone",
        until=lambda count: count >= sum(logged),
    )


def wait_for_line(node: Node, part: str, times: int = 1) -> None:
    """Waits until the node has logged this so often."""
    wait_for(lambda: node.log.read_text().count(part), part, until=lambda count: count >= times)


def wait_for_interval(clients: tuple[RawClient, RawClient], interval_ms: int) -> None:
    """Waits until both workers give new instances this push interval."""
    wait_for(
        lambda: {client.get(uuid.uuid4()).push_interval_ms for client in clients},
        f"an interval of {interval_ms} ms",
        until=lambda intervals: intervals == {interval_ms},
    )


def test_what_the_logs_hold_is_shown_together(node: Node) -> None:
    with clients_of_both_workers(node) as pair:
        for number, client in enumerate(pair):
            client.client_id = f"logged-{number}"
            assert client.push(client.get(uuid.uuid4()), metrics_data()).error_code == 0
            wait_for_line(node, f"printed: a push of logged-{number}")  # by the reporter that each worker has
    shown = cli(node, "log", "tail", "-n", "2").splitlines()
    assert ["logged-0" in shown[0], "logged-1" in shown[1]] == [True, True]
    assert json.loads(cli(node, "log", "stats", "--format", "json"))["logs"].keys() == {"worker-1", "worker-2"}


@pytest.fixture
def whole(node: Node) -> Iterator[str]:
    """The configuration of the node, which has it again in the end."""
    found = node.config_file.read_text()
    yield found
    if node.config_file.read_text() != found:
        node.reread(found)


def test_a_reread_configuration_is_taken_over_by_all_workers_or_by_none(node: Node, whole: str) -> None:
    assert node.process is not None
    with clients_of_both_workers(node) as pair:
        before = [client.get(uuid.uuid4()).push_interval_ms for client in pair]
        node.config_file.write_text(SUBSCRIPTION.replace(str(INTERVAL_MS), "2000").replace("*", "a.,b."))
        node.process.send_signal(signal.SIGHUP)
        wait_for_interval(pair, 2_000)
        assert all(client.get(uuid.uuid4()).requested_metrics == ["a.", "b."] for client in pair)
        node.config_file.write_text('[client-metrics.all]\ninterval.ms = "soon"\n')
        node.process.send_signal(signal.SIGHUP)
        wait_for_line(node, "the configuration was rejected")
        assert [client.get(uuid.uuid4()).push_interval_ms for client in pair] == [2_000, 2_000]
        node.config_file.write_text(whole)
        node.process.send_signal(signal.SIGHUP)
        wait_for_interval(pair, INTERVAL_MS)
    assert before == [INTERVAL_MS, INTERVAL_MS]


def test_an_exporter_is_told_once_with_the_pushes_of_all_workers(node: Node) -> None:
    with clients_of_both_workers(node) as pair:
        for client in pair:
            assert client.push(client.get(uuid.uuid4()), metrics_data()).error_code == 0
    logged = node.status()["push_log"]["logged"]
    node.wait_for(
        lambda s: (
            s["exporter_process"]["exporters"]["landing"]["delivered_records"] >= logged
            and s["exporter_process"]["exporters"]["landing"]["lag_records"] == 0
        ),
        what="the delivery of the pushes of both",
    )
    [told] = json.loads(CliRunner().invoke(app, ["status", "--exporters", "-f", "json", "-d", str(node.data)]).stdout)
    assert told["process"] == "node"
    assert told["exporters"]["landing"]["delivered_records"] >= logged
    assert told["exporters"]["landing"]["lag_records"] == 0
    assert told["push_log"]["segments"] >= 2, "a log for each worker"


def push_through_both(node: Node, pushes: int) -> list[Pusher]:
    """Clients that have begun to push on both workers, and go on: eight, and more while the system gives all to one."""
    pushers: list[Pusher] = []

    def begun(status: dict[str, Any]) -> bool:
        if len(pushers) < 8 or (len(pushers) < 40 and not all(worker["logged"] for worker in status["workers"])):
            pushers.append(Pusher(node.port, pushes))
            pushers[-1].start()
        return len(pushers) >= 8 and all(worker["logged"] for worker in status["workers"])

    node.wait_for(begun, what="pushes on both workers")
    return pushers


def test_what_keeps_a_worker_from_starting_is_one_sentence_and_leaves_no_process(tmp_path: Path) -> None:
    options = (f"log.dirs={tmp_path}", "workers=2", "listeners=PLAINTEXT://127.0.0.1:0", "metric.reporters=no.Such")
    ended = run_cli("serve", *(part for option in options for part in ("--override", option)), check=False)
    assert ended.returncode == 1
    assert "no.Such" in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr
    for number in (1, 2):
        DataDirectory(tmp_path).worker(number).lock(".lock").close()  # nobody has it any more


def test_nothing_acknowledged_is_lost_with_a_worker_or_the_parent_or_with_fewer_workers(tmp_path: Path) -> None:
    (tmp_path / "mount").write_text("a file where the landing zone's disk is to be")
    zone = tmp_path / "mount" / "zone"
    with Node(tmp_path, "workers=2", config=landing(zone)) as node:
        pushers = push_through_both(node, 400)
        node.config_file.write_text(SUBSCRIPTION.replace(str(INTERVAL_MS), "3000") + landing(zone))
        assert node.process is not None
        node.process.send_signal(signal.SIGHUP)
        wait_for_line(node, "config.reread")
        victim = node.status()["workers"][0]
        os.kill(victim["pid"], signal.SIGKILL)
        status = node.wait_for(  # at first it may be known alone that the worker does not answer
            lambda s: any("worker 1 ended" in said for said in s["node"]["degraded"]),
            what="a word of the worker that is missing",
        )
        assert status["node"]["not_ready"] == []
        assert status["push_log"]["logged"] >= victim["logged"]
        for pusher in pushers:
            pusher.join(PATIENCE_S)
            assert not pusher.is_alive(), node.output()
        status = node.wait_for(lambda s: s["workers"][0]["serves"], what="the worker's return")
        assert [worker["restarts"] for worker in status["workers"]] == [1, 0]
        workers = [worker["pid"] for worker in status["workers"]]
        assert workers[0] != victim["pid"]
        with clients_of_both_workers(node) as pair:  # the new one knows what was reread before it was started
            assert [client.get(uuid.uuid4()).push_interval_ms for client in pair] == [3_000, 3_000]
        node.kill()
        wait_for(
            lambda: [pid for pid in workers if Path(f"/proc/{pid}").exists()],
            "the end of the workers",
            until=lambda left: not left,
        )
    acknowledged = set().union(*(pusher.acknowledged for pusher in pushers))
    assert len(acknowledged) > 2_400
    (tmp_path / "mount").unlink()
    with Node(tmp_path, config=landing(zone)) as node:  # on the same data directory, without workers
        logs = [DataDirectory(node.data).worker(number).push_log for number in (1, 2)]
        wait_for(
            lambda: [log for log in logs if holds_pushes(log)],
            "the delivery of the logs that were left",
            until=lambda left: not left,
        )
        assert "workers" not in node.status()
        assert node.stop() == 0, node.output()
    records = landed(zone)
    assert acknowledged <= {record["client_instance_id"] for record in records}
    assert len({record["push_id"] for record in records}) == len(records)

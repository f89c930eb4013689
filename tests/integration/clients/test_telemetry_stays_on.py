"""Real clients at a node to which things happen: none of them ever switches its telemetry off.

Java, librdkafka and franz-go, each in its oldest and its newest version with KIP-714, at one node together, so that one
event meets them all. Their own logs say whether their telemetry is on and which pushes they saw acknowledged; every
acknowledged push has to be in the landing zone. `test_a_refusal_as_invalid_request_is_seen_as_off` is the control: it
shows that the logs are read rightly.
"""

import contextlib
import operator
import os
import random
import re
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.clients.tampering_proxy import TamperingProxy
from support.built import ROOT
from support.clients.client_fleet import ALL_EACH_SECOND, ALL_IN_TEN_MINUTES, INTERVALS, ClientFleet
from support.clients.raw_client import RawClient
from support.clients.telemetry_clients import (
    LIBRDKAFKA_WAITS_FOR_MINUTES,
    VERSIONS,
    ClientProcess,
    JavaProcess,
    LibrdkafkaProcess,
    missing_tools,
)
from support.fleet.landing import landed
from support.payloads.payloads import metrics_data
from support.ports import free_port
from support.programs.bad_reporters import BLOCKS_WHILE
from support.programs.node import Node
from support.waiting import pause, ticking, wait_for

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(missing_tools()), reason=missing_tools()),
    # The first test on a machine has the clients fetched and built, which takes minutes there.
    pytest.mark.timeout(1200),
]

INSTANCES_MAX = 32
SMALL_LOG = ("push.log.segment.bytes=1048576", "push.log.retention.bytes=16777216")
"""The collector is always away, so that the log would keep everything: these clients push 84 kB/s, which fills a small
disk by itself within a quarter of an hour, and no client would be acknowledged any more."""
INVALID_REQUEST = 42
ASKS_AGAIN_AFTER_S = 300.0
CUT_AT_MOST = 2
"""Clients that an event may meet in mid-request, but for a `kill -9`, which may meet all."""


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path | None]:
    """A file system of 64 MiB; None where there is no right to mount one."""
    disk = tmp_path_factory.mktemp("disk")
    mount = ("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk))
    is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    yield disk if is_mounted else None
    if is_mounted:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture(scope="module")
def shared_fleet(tmp_path_factory: pytest.TempPathFactory, small_disk: Path | None) -> Iterator[ClientFleet]:
    """All clients at a node with bad reporters, a collector that is away, and room for few instances."""
    directory = tmp_path_factory.mktemp("fleet")
    away = free_port()
    landing = directory / "landing"
    exporters = (
        f'[exporters.landing]\ntype = "landing"\npath = "{landing}"\nlinger.ms = 500\n'
        f'[exporters.collector]\ntype = "otlp"\nendpoint = "http://127.0.0.1:{away}"\n'
    )
    data = (small_disk or directory) / "data"
    overrides = (
        f"log.dirs={data}",
        "metric.reporters=support.programs.bad_reporters.Raising,support.programs.bad_reporters.Hanging,support.programs.bad_reporters.Blocking",
        "plugin.export.timeout.ms=50",
        "shutdown.timeout.ms=3000",
        f"telemetry.client.instances.max={INSTANCES_MAX}",
        *SMALL_LOG,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT / "tests"))
        patch.setenv(BLOCKS_WHILE, str(directory / "blocks"))
        node = Node(directory, *overrides, config=ALL_EACH_SECOND + exporters, port=free_port())
        node.data = data
        with node:
            fleet = ClientFleet(node, exporters, landing)
            yield fleet
            fleet.kill()


@pytest.fixture
def fleet(shared_fleet: ClientFleet, capsys: pytest.CaptureFixture[str]) -> Iterator[ClientFleet]:
    """All clients pushing; after the test none is off, and what they saw acknowledged has landed."""
    with capsys.disabled():
        shared_fleet.start_clients()
    yield shared_fleet
    for process in shared_fleet.processes:
        if any(client.says_off() or client.was_cut_in_mid_request() for client in process.clients):
            process.kill()  # the next test begins with a new one


def expect_all_well(
    fleet: ClientFleet, before: dict[str, int], capsys: pytest.CaptureFixture[str], *, cut_at_most: int = CUT_AT_MOST
) -> None:
    """Every client is acknowledged again, none says that it is off, and all that was acknowledged is there.

    Where all may be cut, those that are silent are not waited for: a test among the long runs does that.
    """
    fleet.expect_pushes(before, waits_for_the_silent=cut_at_most < len(fleet.clients))
    counts = fleet.expect_landed()
    cut = fleet.cut_in_mid_request()
    with capsys.disabled():
        print(f"\nacknowledged and landed: {counts}; cut in mid-request: {cut}")
    assert len(cut) <= cut_at_most


def test_every_client_sends_metrics_when_it_is_asked_for_all(fleet: ClientFleet) -> None:
    """In the form that it understands: franz-go takes the `*` of the others for a prefix that nothing has."""
    names = {client.instance_id(): client.name for client in fleet.clients}

    def without_metrics() -> set[str]:
        measured = {record["client_instance_id"] for record in landed(fleet.landing) if record["metrics"]}
        return {name for instance_id, name in names.items() if instance_id not in measured}

    wait_for(without_metrics, "metrics of every client in the landing zone", until=operator.not_)


def test_a_changed_subscription_costs_each_client_one_round_trip(
    fleet: ClientFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = fleet.refusals()
    fleet.subscribe('[client-metrics.other]\nmetrics = "org.apache.kafka."\ninterval.ms = 1500\n')
    ids = {client.instance_id(): client.name for client in fleet.clients}

    def not_yet_changed() -> set[str]:
        changed = {push.client_instance_id for push in fleet.landed() if push.push_interval_ms == 1500}
        return {name for instance_id, name in ids.items() if instance_id not in changed}

    wait_for(not_yet_changed, "a push of each client under the new subscription", until=operator.not_)
    assert fleet.refusals() - refused == {"UNKNOWN_SUBSCRIPTION_ID": len(ids)}, "each is refused once, and comes back"
    fleet.subscribe(ALL_EACH_SECOND)
    expect_all_well(fleet, fleet.acknowledged(), capsys)


def test_a_subscription_taken_away_and_given_back_finds_every_client_again(
    fleet: ClientFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.subscribe('[client-metrics.nothing]\nmetrics = ""\ninterval.ms = 1000\n')
    asked = fleet.node.status()["telemetry"]["get_answers"]["NONE"]
    fleet.node.wait_for(
        lambda s: s["telemetry"]["get_answers"]["NONE"] >= asked + 3 * len(fleet.clients), what="three Gets of each"
    )
    before = fleet.acknowledged()
    fleet.subscribe(ALL_EACH_SECOND)
    expect_all_well(fleet, before, capsys)


@pytest.mark.parametrize("end", ["SIGTERM", "SIGKILL"])
def test_a_restart_finds_every_client_again(fleet: ClientFleet, end: str, capsys: pytest.CaptureFixture[str]) -> None:
    node = fleet.node
    if end == "SIGTERM":
        assert node.stop() == 0, node.output()
    else:
        node.kill()
    before = fleet.acknowledged()
    node.start(node.port)
    expect_all_well(fleet, before, capsys, cut_at_most=CUT_AT_MOST if end == "SIGTERM" else len(fleet.clients))


@pytest.mark.soak
def test_a_kill_that_meets_every_client_in_mid_request_loses_none_that_can_be_kept(
    fleet: ClientFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """The node stands still until each has a request on its way. Java before 4.2 is off for good then, and says so."""
    node = fleet.node
    assert node.process is not None
    os.kill(node.process.pid, signal.SIGSTOP)
    pause(3, "clients send at intervals of their own, and a node that stands still sees none of it")
    node.kill()
    before = fleet.acknowledged()
    node.start(node.port)
    fleet.expect_pushes(before)
    fleet.expect_landed()
    cut = fleet.cut_in_mid_request()
    with capsys.disabled():
        print(f"\ncut in mid-request: {cut}; off for good: {fleet.off_by_a_cut()}")
    assert cut


def test_an_evicted_client_goes_on_as_if_nothing_had_happened(
    fleet: ClientFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    before, refused = fleet.acknowledged(), fleet.refusals()
    evicted = fleet.node.status()["telemetry"]["counters"]["instances_evicted"]
    with RawClient(fleet.node.port) as crowd:
        for _ in range(3):
            for _ in range(2 * INSTANCES_MAX):
                assert crowd.push(crowd.get(uuid.uuid4()), metrics_data()).error_code == 0
            fleet.expect_pushes(fleet.acknowledged(), number=1)
    after = fleet.node.status()["telemetry"]["counters"]["instances_evicted"]
    assert after - evicted >= 3 * INSTANCES_MAX + len(fleet.clients)
    expect_all_well(fleet, before, capsys)
    assert fleet.refusals() - refused == {}


def fill(file: Path) -> None:
    """Has `file` take all the room that is left on its disk."""
    with contextlib.suppress(OSError), file.open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))


def test_a_full_disk_delays_pushes_and_mutes_nobody(
    fleet: ClientFleet, small_disk: Path | None, capsys: pytest.CaptureFixture[str]
) -> None:
    if small_disk is None:
        pytest.skip("needs the right to mount a tmpfs")
    filler = small_disk / "filler"
    try:
        fill(filler)
        fleet.node.wait_for(
            lambda s: sum(n for code, n in s["telemetry"]["push_answers"].items() if "PushLogFullError" in code) > 30,
            what="pushes refused for want of room",
        )
    finally:
        filler.unlink(missing_ok=True)
    expect_all_well(fleet, fleet.acknowledged(), capsys)


def test_reporters_that_raise_and_hang_and_a_collector_that_is_away_reach_no_client(
    fleet: ClientFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    before = fleet.node.status()["telemetry"]
    expect_all_well(fleet, fleet.acknowledged(), capsys)
    after = fleet.node.wait_for(
        lambda s: s["exporter_process"]["exporters"]["collector"]["retried"], what="the collector to be missed"
    )
    pushes = INTERVALS * len(fleet.clients)
    assert after["telemetry"]["plugin_timeouts"] - before["plugin_timeouts"] >= pushes
    assert after["telemetry"]["plugin_errors"]["Raising"] - before["plugin_errors"]["Raising"] >= pushes
    assert after["exporter_process"]["exporters"]["collector"]["lag_records"] >= pushes


def test_a_reporter_that_blocks_its_thread_holds_up_no_client(
    fleet: ClientFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = fleet.node.directory / "blocks"
    blocks.touch()
    try:
        fleet.expect_pushes(fleet.acknowledged())
    finally:
        blocks.unlink()
    expect_all_well(fleet, fleet.acknowledged(), capsys)


def test_the_last_push_of_a_closed_client_is_taken(fleet: ClientFleet, capsys: pytest.CaptureFixture[str]) -> None:
    """Java sends one only where it has a group or unsent records, and franz-go 1.19 gives its own up.

    The others send none where another request is on its way: all have the next one in minutes before they are closed.
    """
    refused = fleet.refusals()
    fleet.subscribe(ALL_IN_TEN_MINUTES)
    awaits = {
        "librdkafka": LIBRDKAFKA_WAITS_FOR_MINUTES,
        "franz-go-1.22": r"(?s)outdated subscription.*read GetTelemetrySubscriptions",
    }
    sends_one = {
        client: text for client in fleet.clients for name, text in awaits.items() if client.name.startswith(name)
    }
    wait_for(
        lambda: [client.name for client, text in sends_one.items() if not re.search(text, "\n".join(client.lines()))],
        "the long interval",
        until=operator.not_,
    )
    once_each = {"UNKNOWN_SUBSCRIPTION_ID": len(fleet.clients)}
    wait_for(lambda: fleet.refusals() - refused, "one refusal of each", until=lambda new: new == once_each)
    fleet.close_clients()

    def without_a_last_push() -> set[str]:
        last = {push.client_instance_id for push in fleet.landed() if push.terminating}
        return {client.name for client in sends_one if client.instance_id() not in last}

    wait_for(without_a_last_push, "terminating pushes in the landing zone", until=operator.not_)
    fleet.expect_landed()
    assert fleet.refusals() - refused == once_each
    fleet.subscribe(ALL_EACH_SECOND)


@pytest.mark.soak
def test_an_expired_client_goes_on_as_if_nothing_had_happened(
    fleet: ClientFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """Forgotten after `max(60 s, 3 x interval)` of silence, which is a stopped process here, it is known again."""
    refused = fleet.refusals()
    expired = fleet.node.status()["telemetry"]["counters"]["instances_expired"]
    for process in fleet.processes:
        process.process.send_signal(signal.SIGSTOP)
    try:
        fleet.node.wait_for(
            lambda s: s["telemetry"]["counters"]["instances_expired"] >= expired + len(fleet.clients),
            what="every client to be forgotten",
        )
    finally:
        for process in fleet.processes:
            process.process.send_signal(signal.SIGCONT)
    expect_all_well(fleet, fleet.acknowledged(), capsys)
    assert fleet.refusals() - refused == {}


@pytest.mark.soak
def test_a_removed_subscription_finds_every_client_again_when_it_is_back(
    fleet: ClientFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where nothing matches, clients ask again every five minutes, which is more than a wait's patience."""
    refused = fleet.refusals()["UNKNOWN_SUBSCRIPTION_ID"]
    fleet.subscribe('[client-metrics.others]\nmetrics = "*"\ninterval.ms = 1000\nmatch = "client_id=nobody"\n')
    wait_for(
        lambda: fleet.refusals()["UNKNOWN_SUBSCRIPTION_ID"] - refused,
        "every client to be told",
        until=lambda told: told >= len(fleet.clients),
    )
    before = fleet.acknowledged()
    fleet.subscribe(ALL_EACH_SECOND)

    def are_back() -> bool:
        return all(count > before[name] for name, count in fleet.acknowledged().items())

    any(are_back() for _ in ticking(ASKS_AGAIN_AFTER_S))
    fleet.expect_pushes(before)
    expect_all_well(fleet, fleet.acknowledged(), capsys)


@pytest.mark.soak
def test_many_orderly_restarts_at_random_moments_cut_nobody_in_mid_request(
    fleet: ClientFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = random.Random(seed := random.randrange(2**32))
    for _ in range(20):
        pause(chosen.uniform(0, 1), "the stop comes at a random moment")
        assert fleet.node.stop() == 0, fleet.node.output()
        before = fleet.acknowledged()
        fleet.node.start(fleet.node.port)
        fleet.expect_pushes(before, number=1)
        with capsys.disabled():
            print(f"\nseed {seed}: cut in mid-request: {fleet.cut_in_mid_request()}")
        assert not fleet.cut_in_mid_request()


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[tuple[TamperingProxy, list[ClientProcess]]]:
    """All clients, pushing through a proxy that can spoil the answers."""
    with TamperingProxy() as proxy:
        bootstrap = f"127.0.0.1:{proxy.port}"
        node = Node(tmp_path, f"advertised.listeners=PLAINTEXT://{bootstrap}", config=ALL_EACH_SECOND)
        processes: list[ClientProcess] = []
        with node, contextlib.ExitStack() as clean_up:
            proxy.upstream_port = node.port
            for kind, version in VERSIONS:
                processes.append(kind(version, bootstrap, tmp_path))
                clean_up.callback(processes[-1].kill)
            wait_for(
                lambda: [c.name for p in processes for c in p.clients if c.acknowledged() < 1],
                "a push of each client",
                until=operator.not_,
            )
            yield proxy, processes


def test_a_refusal_as_invalid_request_is_seen_as_off(
    proxied: tuple[TamperingProxy, list[ClientProcess]],
) -> None:
    proxy, processes = proxied
    clients = [client for process in processes for client in process.clients]
    assert not any(client.says_off() for client in clients)
    proxy.push_error = INVALID_REQUEST
    wait_for(
        lambda: [client.name for client in clients if not client.says_off()],
        "every client to say it is off",
        until=operator.not_,
    )
    proxy.push_error = None
    before = {client.name: client.acknowledged() for client in clients}
    for _ in ticking(3):
        assert {client.name: client.acknowledged() for client in clients} == before, "and they are"


def test_a_connection_cut_under_a_push_switches_off_the_older_java_clients_alone(
    proxied: tuple[TamperingProxy, list[ClientProcess]],
) -> None:
    """Why a node must answer whatever it has read before it closes a connection, and in time (KAFKA-19747)."""
    proxy, processes = proxied
    clients = [client for process in processes for client in process.clients]
    proxy.cuts_pushes = True
    old = [c for c in clients if isinstance(c.process, JavaProcess) and c.process.version == "3.7.2"]
    wait_for(
        lambda: [client.name for client in old if not client.says_off()],
        "the older Java clients to be off",
        until=operator.not_,
    )
    proxy.cuts_pushes = False
    assert all(client.was_cut_in_mid_request() for client in old)
    others = [client.name for client in clients if client not in old and client.says_off()]
    assert not others


def test_an_interval_of_an_hour_sends_no_librdkafka_client_into_a_loop(tmp_path: Path) -> None:
    """It overflows in them, and they ask thousands of times a second: see `telemetry.subscriptions.interval_bound`."""
    config = '[client-metrics.rare]\nmetrics = "*"\ninterval.ms = 3600000\n'
    with Node(tmp_path, config=config) as node, contextlib.ExitStack() as clean_up:
        processes = []
        for kind, version in VERSIONS:
            if kind is LibrdkafkaProcess:
                processes.append(kind(version, f"127.0.0.1:{node.port}", tmp_path))
                clean_up.callback(processes[-1].kill)
        clients = [client for process in processes for client in process.clients]
        wait_for(
            lambda: [client.name for client in clients if not client.instance_id()],
            "an id for each",
            until=operator.not_,
        )
        pause(2, "a client in its loop has asked a thousand times by then")
        status = node.status()["telemetry"]
        assert (status["get_answers"], status["refusals"]) == ({"NONE": len(clients)}, {})

"""Consumer groups of a real broker, none of which has telemetry: sampled, read by `fleet run`, and judged."""

import json
import math
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic
from structlog.testing import capture_logs
from support.brokers.kafka_broker import CLUSTER_ID, MISSING, KafkaBroker
from support.clients.working_clients import JAVA_4, WorkingClients
from support.waiting import PATIENCE_S, ticking, wait_for

from fleetgauge.base.clock import SystemTime
from fleetgauge.exporters.group_offsets.run import OffsetsRun
from fleetgauge.exporters.group_offsets.settings import OffsetsConfigError, OffsetsSettings

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(MISSING), reason=MISSING)]

Row = dict[str, Any]

_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
_RULES = """
[lagging]
for_s = 10
[stalled]
for_s = 10
[idle-consumer]
for_s = 10
"""
"""Durations of minutes as one or two windows of 10 s."""
_PROTOCOLS = {"4.3.1": ("classic", "consumer"), "2.8.2": ("classic",)}
"""Of groups, by the version of the broker. A broker of 2.8 has no authorizer without ZooKeeper, so no ACLs here."""
_ROUNDS = 38
"""Samples before a group goes back, one a second: three windows."""
_ROUNDS_BACK = 4
"""And after that; a trend is of the last ten."""


def fleetgauge(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "fleetgauge", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=5 * PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Fleet:
    """Groups of librdkafka consumers without telemetry, each with a topic of its name."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.faults: list[str] = []

    def topics(self, **partitions: int) -> None:
        made = self.admin.create_topics([NewTopic(name, count, 1) for name, count in partitions.items()])
        for future in made.values():
            future.result(PATIENCE_S)

    def run(self, function: Callable[..., None], *arguments: Any) -> threading.Thread:
        def guarded() -> None:
            try:
                function(*arguments)
            except Exception as error:  # noqa: BLE001  # shown by the fixture
                self.faults.append(repr(error))

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        self._threads.append(thread)
        return thread

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

    def close(self) -> None:
        self._threads.clear()
        del self.admin

    def produce(self, rates: dict[str, float]) -> None:
        """Writes records to partitions `topic/number`, so many a second each, until the end."""
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "linger.ms": 5, "enable.metrics.push": False, "log_level": 0}
        )
        due = dict.fromkeys(rates, 0.0)
        for passed_s in ticking(math.inf):
            if self._stop.is_set():
                break
            for name, rate in rates.items():
                topic, _, partition = name.partition("/")
                while due[name] < passed_s * rate:
                    due[name] += 1
                    producer.produce(topic, b"x" * 20, partition=int(partition))
            producer.poll(0)
        producer.flush(PATIENCE_S)

    def consume(self, group: str, client_id: str = "", *, pause_s: float = 0.0, commits: int = 10**9) -> None:
        """Reads a record, sleeps, commits: so many times; then it polls and commits no more."""
        consumer = self.consumer(group, client_id or group)
        consumer.subscribe([group])
        while not self._stop.is_set():
            message = consumer.poll(0.2)
            if message is None or message.error() is not None or commits <= 0:
                continue
            self._stop.wait(pause_s)
            commits -= 1
            with suppress(KafkaException):  # its group rebalances
                consumer.commit(message=message, asynchronous=False)
        consumer.close()

    def consumer(self, group: str, client_id: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "client.id": client_id,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.metrics.push": False,
                "log_level": 0,
            }
        )

    def commit(self, group: str, offset: int) -> None:
        """Of partition 0 of a group without members."""
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(group, 0, offset)])

        def error() -> object:
            done = self.admin.alter_consumer_group_offsets([asked], request_timeout=30)[group].result(PATIENCE_S)
            (partition,) = done.topic_partitions
            return partition.error

        # The coordinator may not be there yet, which the partition may report, too. `==` would take what its KafkaError
        # is compared with for a number, and leave the TypeError of None to whatever is called next.
        wait_for(
            error,
            f"the commit of an offset of {group}",
            until=lambda found: found is None,
            ignoring=(KafkaException, TimeoutError),
        )

    def deny(self, kind: ResourceType, name: str) -> None:
        acl = AclBinding(
            kind,
            name,
            ResourcePatternType.LITERAL,
            "User:ANONYMOUS",
            "*",
            AclOperation.DESCRIBE,
            AclPermissionType.DENY,
        )
        for future in self.admin.create_acls([acl]).values():
            future.result(PATIENCE_S)


_PARTITIONS = {"moving": 2, "growing": 1}
"""Of the topics of Java's groups: a member that lags reads one partition for a while, and then the other."""


def java_groups(version: str) -> dict[str, str]:
    """Groups of Java consumers at a broker of this version, and the trend of each."""
    trends = {"moves": "moving", "lags": "growing"}
    return {f"java-{protocol}-{does}": trends[does] for protocol in _PROTOCOLS[version] for does in trends}


def start_java(clients: WorkingClients, groups: dict[str, str]) -> None:
    """A member for each partition; that of a group that lags reads fewer records than are written."""
    for group, trend in groups.items():
        protocol = group.split("-")[1]
        settings = {"group.protocol": protocol, "enable.metrics.push": "false", "auto.commit.interval.ms": "200"}
        for number in range(_PARTITIONS[trend]):
            pace = {"max.poll.records": "1"} if trend == "growing" else {}
            work_ms = 250 if trend == "growing" else 0
            clients.consumer(f"{group}-{number}", group, group, work_ms, **settings, **pace)


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("2.8.2", marks=pytest.mark.soak)])
def version(request: pytest.FixtureRequest) -> str:
    """Of the broker."""
    return str(request.param)


@pytest.fixture(scope="module")
def tables(version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The tables of what was sampled; the landing zone is beside them."""
    directory = tmp_path_factory.mktemp("offsets")
    has_acls, of_java = version != "2.8.2", java_groups(version)
    properties = _AUTHORIZER if has_acls else None
    with KafkaBroker(directory / "kafka", version, properties=properties, heap="384m") as broker, ExitStack() as stack:
        fleet = Fleet(broker.bootstrap)
        stack.callback(fleet.stop)
        fleet.topics(moves=3, lags=1, stalls=1, stops=1, rewinds=1, crowded=2, secret=1, hidden=1)
        members = {group: _PARTITIONS[trend] for group, trend in of_java.items()}
        fleet.topics(**members)
        java = WorkingClients(JAVA_4, broker.bootstrap, directory / "java.log")
        stack.callback(java.kill)
        start_java(java, of_java)
        for group in ("stops", "rewinds", *(("secret", "hidden") if has_acls else ())):
            fleet.commit(group, 0)
        written = (
            *(f"moves/{number}" for number in range(3)),
            "lags/0",
            "stalls/0",
            "stops/0",
            "rewinds/0",
        )
        of_java_written = (f"{group}/{number}" for group, count in members.items() for number in range(count))
        rates = dict.fromkeys((*written, "crowded/0", *of_java_written), 20.0)
        # On a busy machine, too, these groups have to keep up; `moves` commits each record by itself.
        moving = ("moves", *(group for group, trend in of_java.items() if trend == "moving"))
        rates |= {place: 5.0 for place in rates if place.partition("/")[0] in moving}
        fleet.run(fleet.produce, rates)
        fleet.run(fleet.consume, "moves")
        fleet.run(lambda: fleet.consume("lags", pause_s=0.2))
        fleet.run(lambda: fleet.consume("stalls", commits=5))
        for number in range(3):
            fleet.run(fleet.consume, "crowded", f"crowded-{number}")
        _wait_for_members(fleet.admin, {"moves": 1, "lags": 1, "stalls": 1, "crowded": 3, **members})
        if has_acls:
            fleet.deny(ResourceType.GROUP, "secret")
            fleet.deny(ResourceType.TOPIC, "hidden")
        settings = OffsetsSettings(
            bootstrap_servers=broker.bootstrap, path=str(directory / "landing"), writer="test", interval_ms=1_000,
            linger_ms=3_000,
        )  # fmt: skip
        run = OffsetsRun(settings)
        sampler = fleet.run(run.run)
        fleet.commit("rewinds", 100)
        _wait_for_rounds(run, _ROUNDS)
        fleet.commit("rewinds", 40)
        _wait_for_rounds(run, run.status()["rounds"] + _ROUNDS_BACK)
        run.stop()
        assert 0 <= SystemTime().microseconds() - run.status()["sampled_at"] < PATIENCE_S * 1e6
        sampler.join(PATIENCE_S)
        fleet.stop()
        assert fleet.faults == []
        java.close()
        # librdkafka's clients end while the broker is there: later, their end may take minutes.
        fleet.close()
        del run, sampler
        (directory / "rules.toml").write_text(_RULES)
        fleetgauge(
            *("fleet", "run", "--source", str(directory / "landing"), "--tables", str(directory / "tables")),
            *("--window", "10s", "--rules", str(directory / "rules.toml")),
        )
        yield directory / "tables"


def _wait_for_members(admin: AdminClient, wanted: dict[str, int]) -> None:
    def members() -> dict[str, tuple[int, str]]:
        asked = admin.describe_consumer_groups(list(wanted))
        groups = {name: future.result(PATIENCE_S) for name, future in asked.items()}
        return {name: (len(group.members), group.state.name) for name, group in groups.items()}

    all_of_them = {name: (count, "STABLE") for name, count in wanted.items()}
    wait_for(members, f"the groups {all_of_them}", until=lambda found: found == all_of_them)


def _wait_for_rounds(run: OffsetsRun, count: int) -> None:
    wait_for(lambda: int(run.status()["rounds"]), f"{count} rounds", until=lambda rounds: rounds >= count)


def shown(tables: Path, table: str) -> list[Row]:
    printed = fleetgauge("fleet", "show", table, "--tables", str(tables), "--format", "json")
    return [json.loads(line) for line in printed.splitlines()]


def latest(tables: Path) -> dict[str, Row]:
    """The row of each group's last window."""
    found: dict[str, Row] = {}
    for row in sorted(shown(tables, "group_trends"), key=lambda each: each["window_start"]):
        found[row["group_id"]] = row
    return found


def test_each_group_has_the_trend_of_what_it_does(version: str, tables: Path) -> None:
    found = latest(tables)
    trends = {group: row["trend"] for group, row in found.items() if group not in ("secret", "hidden")}
    assert trends == {
        "moves": "moving", "lags": "growing", "stalls": "stalled", "stops": "stopped", "rewinds": "rewound",
        "crowded": "moving", **java_groups(version),
    }  # fmt: skip
    assert {row["cluster_id"] for row in found.values()} == {CLUSTER_ID}
    assert (found["moves"]["members"], found["moves"]["partitions"]) == (1, 3)
    assert (found["crowded"]["members"], found["crowded"]["idle_members"]) == (3, 1)
    assert found["moves"]["lag_records"] < 60 < found["lags"]["lag_records"]
    assert found["lags"]["since"] < found["lags"]["window_start"]


def test_the_members_of_java_groups_are_known_by_either_protocol(version: str, tables: Path) -> None:
    rows, found = shown(tables, "group_offsets"), latest(tables)
    for group, trend in java_groups(version).items():
        members = {(row["client_id"], row["topic"]) for row in rows if row["group_id"] == group and row["client_id"]}
        count = _PARTITIONS[trend]
        assert members == {(f"{group}-{number}", group) for number in range(count)}
        assert (found[group]["members"], found[group]["partitions"]) == (count, count)


def test_what_may_not_be_described_is_marked(version: str, tables: Path) -> None:
    if version == "2.8.2":
        pytest.skip("a broker of 2.8 has no authorizer without ZooKeeper")
    found = latest(tables)
    assert (found["secret"]["trend"], found["hidden"]["trend"]) == ("unknown", "unknown")
    assert found["secret"]["error"] == "GROUP_AUTHORIZATION_FAILED"
    assert found["secret"]["lag_records"] is None
    rows = [row for row in shown(tables, "group_offsets") if row["group_id"] == "secret"]
    assert {row["error"] for row in rows} == {"GROUP_AUTHORIZATION_FAILED"}


def test_groups_without_telemetry_are_judged(version: str, tables: Path) -> None:
    rows = json.loads(fleetgauge("fleet", "verdicts", "--tables", str(tables), "--format", "json"))
    found = {(row["verdict"], row["subject_kind"], row["subject"]) for row in rows}
    idle = {row["subject"] for row in rows if row["verdict"] == "idle-consumer"}
    assert found == {
        *(("lagging", "group", each) for each in ("lags", *java_groups(version)) if each.endswith("lags")),
        ("stalled", "group", "stalls"),
        *(("idle-consumer", "client", each) for each in idle),
    }  # fmt: skip
    assert len(idle) == 1
    assert idle < {"crowded-0", "crowded-1", "crowded-2"}
    assert all(row["judged_by"] == ["group-offsets"] and row["cluster_id"] == CLUSTER_ID for row in rows)
    (lagging,) = (row for row in rows if row["verdict"] == "lagging" and row["subject"] == "lags")
    assert lagging["evidence"][-1]["metric"] == "group_offsets.lag_records"
    assert lagging["group_id"] == "lags"


def test_a_group_without_telemetry_is_explained_and_covered(version: str, tables: Path) -> None:
    (explained,) = json.loads(fleetgauge("fleet", "explain", "lags", "--tables", str(tables), "--format", "json"))
    lag = next(each for each in explained["over_time"]["series"] if each["metric"] == "group_offsets.lag_records")
    assert lag["values"][-1] > lag["values"][0]
    covered = json.loads(fleetgauge("fleet", "verdicts", "--tables", str(tables), "--coverage", "--format", "json"))
    rows = [row for row in covered if row["library"] == "no telemetry"]
    instances: Counter[str] = Counter()
    for row in rows:
        instances[row["verdict"]] += row["instances"]
    groups = {row["verdict"]: row for row in rows if "has no member" not in (row["why_not"] or "")}
    assert groups.keys() == {"lagging", "stalled", "uneven-group", "idle-consumer"}
    assert set(instances.values()) == {6 + len(java_groups(version))}
    # By the rules of this run; uneven-group lasts as long as by default, which is longer than what was sampled.
    assert {name for name, row in groups.items() if row["judged_by"] == "group-offsets"} == groups.keys() - {
        "uneven-group"
    }
    assert "minutes were judged" in groups["uneven-group"]["why_not"]


def test_a_second_run_reads_nothing_twice(tables: Path) -> None:
    before = len(shown(tables, "group_offsets"))
    printed = fleetgauge(
        *("fleet", "run", "--source", str(tables.parent / "landing"), "--tables", str(tables)),
        *("--window", "10s", "--rules", str(tables.parent / "rules.toml")),
    )
    assert "nothing new" in printed
    assert len(shown(tables, "group_offsets")) == before


def test_one_round_without_a_broker_says_so_after_its_timeout_and_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Making a batch imports pandas, which took longer than the timeout."""
    monkeypatch.setattr("fleetgauge.exporters.group_offsets.run.record_batch", None)
    settings = OffsetsSettings(bootstrap_servers="127.0.0.1:9", path=str(tmp_path), writer="w", timeout_ms=200)
    with capture_logs() as logs, pytest.raises(OffsetsConfigError, match=r"127\.0\.0\.1:9 answered within 200 ms"):
        OffsetsRun(settings).once()
    said = [each["message"] for each in logs if each["event"] == "group_offsets.not_sampled"]
    assert said == ["no broker answered; the next round retries"]
    assert not list(tmp_path.rglob("*.parquet"))

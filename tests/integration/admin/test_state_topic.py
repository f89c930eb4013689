"""The state on a topic of a real broker: one order of changes for all nodes, and what holds without the topic."""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient as RdkafkaAdmin
from confluent_kafka.cimpl import NewTopic
from structlog.testing import capture_logs
from support.brokers.admin_client import AdminClient
from support.brokers.admin_kills import kill_rounds
from support.brokers.kafka_broker import KafkaBroker
from support.clients.raw_client import RawClient
from support.http import get
from support.ports import free_ports
from support.programs.node import Node
from support.refusing_proxy import RefusingProxy
from support.waiting import PATIENCE_S, wait_for

from fleetgauge.base.clock import SystemTime
from fleetgauge.node.state.store import State, StateStore
from fleetgauge.node.state.topic import StateTopic
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.kafka_topic.topic import WrongTopicError
from fleetgauge.push_log.log import PushLogError

pytestmark = pytest.mark.integration

STRANGE = "</script>\n\x1b[31m\x1f\u202e\0" + "x" * 10_000
NOTHING = '[client-metrics.none]\nmetrics = ""\n'


class Open(Protocol):
    """Opens the topic as a node of that name does, and reads it."""

    def __call__(self, name: str, former: State | None = None) -> StateTopic: ...


@pytest.fixture(scope="module", autouse=True)
def _transactions(broker: KafkaBroker) -> None:
    """The broker's first transaction takes seconds, in which it makes the topic of their state."""
    Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "first"}).init_transactions(PATIENCE_S)


@pytest.fixture
def settings(broker: KafkaBroker) -> KafkaTopicSettings:
    return KafkaTopicSettings(
        bootstrap_servers=broker.bootstrap,
        topic=f"state-{uuid.uuid4().hex[:12]}",
        partitions=1,
        cleanup_policy="compact",
        max_payload_bytes=1 << 20,
    )


@pytest.fixture
def opened(settings: KafkaTopicSettings, tmp_path: Path) -> Iterator[Open]:
    with ExitStack() as stack:

        def open_topic(name: str, former: State | None = None) -> StateTopic:
            topic = StateTopic(settings, StateStore(tmp_path / f"{name}.db"), SystemTime(), former or {})
            stack.enter_context(closing(topic))
            topic.start()
            return topic

        yield open_topic


def setting(name: str, value: object) -> Callable[[State], State]:
    """A change of one name."""
    return lambda state: {**state, "client_metrics": {**state.get("client_metrics", {}), name: {"key": str(value)}}}


def counted(topic: StateTopic) -> int:
    return int(topic.read().get("client_metrics", {}).get("counter", {}).get("key", "0"))


def count(topic: StateTopic, times: int) -> None:
    """Adds one, so often: each change depends on the one before, whoever made it."""

    def one_more(state: State) -> State:
        before = int(state.get("client_metrics", {}).get("counter", {}).get("key", "0"))
        return setting("counter", before + 1)(state)

    for _ in range(times):
        topic.change(one_more)


def test_changes_of_several_nodes_at_once_have_one_order_and_none_is_lost(opened: Open) -> None:
    nodes = [opened("a"), opened("b")]
    threads = [threading.Thread(target=count, args=(node, 10)) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for node in (*nodes, opened("new")):
        node.read_if_changed()
        assert counted(node) == 20


def test_the_loser_of_two_changes_decides_on_what_the_winner_wrote(opened: Open) -> None:
    first, second = opened("first"), opened("second")
    seen: list[State] = []

    def alter(state: State) -> State:
        seen.append(state)
        if len(seen) == 1:  # the other node is faster
            second.change(setting("key", "winner"))
        assert len(seen) < 3
        return setting("key", "loser")(state)

    first.change(lambda state: {})
    first.change(alter)
    assert [each.get("client_metrics", {}).get("key") for each in seen] == [None, {"key": "winner"}]
    assert second.read_if_changed() == first.read() == setting("key", "loser")({})


class BrokerBehindProxy(KafkaBroker):
    """A broker that clients find behind a proxy."""

    def __init__(self, directory: Path, proxy: RefusingProxy) -> None:
        self._proxy = proxy
        super().__init__(directory, "4.3.1", heap="256m")
        proxy.upstream_port = self.port
        self.bootstrap = f"127.0.0.1:{proxy.port}"

    def _defaults(self) -> dict[str, str]:
        found = super()._defaults()
        return {**found, "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._proxy.port}"}


@pytest.fixture(scope="module")
def proxy() -> Iterator[RefusingProxy]:
    with RefusingProxy() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def proxied(proxy: RefusingProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with BrokerBehindProxy(tmp_path_factory.mktemp("proxied"), proxy) as broker:
        Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "first"}).init_transactions(PATIENCE_S)
        yield broker


UNKNOWN_SERVER_ERROR, INVALID_REQUEST = -1, 42


@pytest.mark.parametrize("aborts", [False, True])
def test_a_commit_with_an_unknown_outcome_is_tried_again_and_written_once(
    proxied: KafkaBroker, proxy: RefusingProxy, settings: KafkaTopicSettings, tmp_path: Path, aborts: bool
) -> None:
    """As a broker answers a node that another fenced meanwhile: it is not known whether the commit took place."""
    behind = replace(settings, bootstrap_servers=proxied.bootstrap)
    with closing(StateTopic(behind, StateStore(tmp_path / "copy.db"), SystemTime(), {})) as topic:
        topic.start()
        count(topic, 1)
        proxy.codes, proxy.aborts = [UNKNOWN_SERVER_ERROR], aborts
        with capture_logs() as logs:
            count(topic, 1)
        assert (counted(topic), proxy.codes, logs) == (2, [], [])
        count(topic, 1)
        assert counted(topic) == 3


def test_a_commit_that_is_refused_is_not_tried_again(
    proxied: KafkaBroker, proxy: RefusingProxy, settings: KafkaTopicSettings, tmp_path: Path
) -> None:
    behind = replace(settings, bootstrap_servers=proxied.bootstrap)
    with closing(StateTopic(behind, StateStore(tmp_path / "copy.db"), SystemTime(), {})) as topic:
        topic.start()
        proxy.codes, proxy.aborts = [INVALID_REQUEST] * 2, True
        with pytest.raises(PushLogError):
            count(topic, 1)
        assert len(proxy.codes) == 1
        proxy.codes.clear()


def test_a_change_is_read_whole_by_the_others_and_a_removed_name_stays_removed(opened: Open) -> None:
    first, second = opened("first"), opened("second")
    many = {
        kind: {f"{number}": {STRANGE: STRANGE} for number in range(20)} for kind in ("quotas", "of a later release")
    }
    assert first.change(lambda _: many) == many
    assert second.read_if_changed() == many
    assert second.read_if_changed() is None
    second.change(lambda state: {**state, "quotas": {"1": state["quotas"]["1"]}})
    assert first.read_if_changed() == opened("third").read() == {**many, "quotas": {"1": {STRANGE: STRANGE}}}


def test_what_a_change_raises_changes_nothing(opened: Open) -> None:
    node = opened("a")
    node.change(setting("a", 1))

    def refuse(_: State) -> State:
        raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        node.change(refuse)
    assert opened("b").read() == setting("a", 1)({})
    assert node.change(setting("a", 2)) == setting("a", 2)({})


def test_records_that_are_none_are_ignored_and_those_of_transactions_without_an_end_are_never_read(
    opened: Open, settings: KafkaTopicSettings
) -> None:
    node = opened("a")
    node.change(setting("a", 1))
    stranger = Producer({"bootstrap.servers": settings.bootstrap_servers})
    half = b'{"key": "\\ud800"}'
    for key, value in (
        *((b"", b"x"), (b"[1]", b"{}"), (b'["a", "b"]', b"[1]"), (b'["client_metrics", "a"]', half)),
        *((b"\xff", None), (b"[" * 100_000, b"1")),
    ):
        stranger.produce(settings.topic, value, key)
    assert stranger.flush(PATIENCE_S) == 0
    killed = Producer({"bootstrap.servers": settings.bootstrap_servers, "transactional.id": settings.topic})
    killed.init_transactions(PATIENCE_S)
    killed.begin_transaction()
    killed.produce(settings.topic, b'{"key": "half"}', b'["client_metrics", "a"]')
    killed.flush(PATIENCE_S)
    assert opened("b").read() == setting("a", 1)({})
    assert node.change(setting("b", 2)) == opened("c").read()
    assert node.read()["client_metrics"]["a"] == {"key": "1"}


def test_the_state_of_a_single_node_is_taken_to_an_empty_topic_once(opened: Open) -> None:
    former = setting("former", 1)({})
    with capture_logs() as logs:
        assert opened("a", former).read() == former
        assert opened("another worker of a", former).read() == former
    assert [line["event"] for line in logs if line["event"].startswith("state.")] == ["state.imported"]
    with capture_logs() as logs:
        assert opened("b", setting("other", 2)({})).read() == former
    assert [line["event"] for line in logs if line["event"].startswith("state.")] == ["state.db_not_read"]


@pytest.mark.parametrize(
    ("partitions", "config", "text"),
    [(3, {"cleanup.policy": "compact"}, "has 3 partitions"), (1, {}, "has cleanup.policy=delete")],
)
def test_a_topic_that_would_lose_or_mix_records_is_refused_at_the_start(
    opened: Open, settings: KafkaTopicSettings, partitions: int, config: dict[str, str], text: str
) -> None:
    admin = RdkafkaAdmin({"bootstrap.servers": settings.bootstrap_servers})
    admin.create_topics([NewTopic(settings.topic, partitions, 1, config=config)])[settings.topic].result(PATIENCE_S)
    with pytest.raises(WrongTopicError, match=text):
        opened("a")


def test_a_topic_that_is_deleted_and_made_again_leaves_the_state_in_force_until_a_restart(
    opened: Open, settings: KafkaTopicSettings
) -> None:
    node = opened("a")
    node.change(setting("a", 1))
    admin = RdkafkaAdmin({"bootstrap.servers": settings.bootstrap_servers})
    admin.delete_topics([settings.topic])[settings.topic].result(PATIENCE_S)

    def make_again() -> bool:
        again = NewTopic(settings.topic, 1, 1, config={"cleanup.policy": "compact"})
        admin.create_topics([again])[settings.topic].result(PATIENCE_S)
        return True

    def problem() -> str:
        assert node.read_if_changed() is None
        return node.problem or ""

    wait_for(make_again, "the end of the deletion", ignoring=(KafkaException,))
    node.read_if_changed()
    wait_for(problem, "the node to report the deletion", until=lambda reported: "restart" in reported)
    assert node.read() == setting("a", 1)({})
    with pytest.raises(PushLogError, match="restart the nodes"):
        node.change(setting("a", 2))
    assert opened("a").read() == {}


def options(broker: KafkaBroker, topic: str) -> tuple[str, ...]:
    return ("state.store=kafka", f"state.topic={topic}", f"push.log.kafka.bootstrap.servers={broker.bootstrap}")


def asked_for(node: Node) -> list[str]:
    with RawClient(node.port) as client:
        return client.get().requested_metrics


def wait_until_asked_for(node: Node, metrics: list[str]) -> None:
    wait_for(lambda: asked_for(node), f"a subscription to {metrics}", until=lambda found: found == metrics)


def test_a_node_that_lost_the_topic_serves_what_it_knows_says_so_and_refuses_changes(
    broker: KafkaBroker, settings: KafkaTopicSettings, tmp_path: Path
) -> None:
    """Two nodes, one of two workers: a change at one reaches the other's clients, also after the brokers were away."""
    shared = options(broker, settings.topic)
    directories = [tmp_path / "one", tmp_path / "two"]
    for each in directories:
        each.mkdir()
    first = Node(directories[0], *shared, "workers=2", config=NOTHING)
    second = Node(directories[1], *shared, "http.listeners=http://127.0.0.1:0", config=NOTHING)
    with first, second:
        with AdminClient(first.port) as admin:
            assert admin.set("s", metrics="a.") == (0, None)
            assert admin.alter_quotas(([("user", "u")], {"request_percentage": 5.0}))[0][:2] == (0, None)
            assert admin.alter_scram(upsert=[("bob", 2, 4_096, b"salt", b"x")])["bob"] == (0, None)
        with AdminClient(second.port) as admin:
            assert admin.names() == ["none", "s"]
            assert admin.quotas()[2] == {(("user", "u"),): {"request_percentage": 5.0}}
            assert admin.scram("bob")["bob"][0] == 0
        wait_until_asked_for(second, ["a."])
        broker.kill()
        try:
            status = second.wait_for(lambda found: found["state"]["topic_lost"], what="the loss of the topic")
            assert settings.topic in status["node"]["degraded"][0]
            first.wait_for(lambda found: found["node"]["degraded"], what="a degraded node")
            ready = get(second, "/readyz")
            assert (ready.status, ready.json()["ready"]) == (200, True)
            assert settings.topic in ready.json()["degraded"][0]
            metrics = get(second, "/metrics").body.decode()
            assert "\nfleetgauge_state_topic_lost 1.0\n" in metrics
            with AdminClient(second.port) as admin:
                assert admin.names() == ["none", "s"]
                answers = [
                    admin.set("s", metrics="b."),
                    admin.alter_quotas(([("user", "u")], {"request_percentage": 6.0}))[0][:2],
                    admin.alter_scram(upsert=[("bob", 2, 4_096, b"salt", b"x")])["bob"],
                ]
            for code, text in answers:
                assert (code, settings.topic in (text or "")) == (-1, True), text
            assert asked_for(second) == ["a."]
            second.stop()
            second.start()  # without a broker
            assert asked_for(second) == ["a."]
            assert "state.topic_lost" in second.output()
        finally:
            broker.start()
        second.wait_for(lambda found: not found["state"]["topic_lost"], what="the topic")
        with AdminClient(second.port) as admin:
            assert admin.set("s", metrics="c.") == (0, None)
        wait_until_asked_for(first, ["c."])
        assert "Traceback" not in first.output() + second.output()


def test_a_node_without_a_copy_does_not_start_without_the_topic(tmp_path: Path) -> None:
    settings = KafkaTopicSettings(bootstrap_servers=f"127.0.0.1:{free_ports(1)[0]}", cleanup_policy="compact")
    with closing(StateTopic(settings, StateStore(tmp_path / "copy.db"), SystemTime(), {})) as node:
        node.start_within_s = 0.1
        with pytest.raises(PushLogError, match="no copy"):
            node.start()


def test_a_kill_at_any_moment_loses_no_acknowledged_change_of_a_topic(
    broker: KafkaBroker, settings: KafkaTopicSettings, tmp_path: Path
) -> None:
    kill_rounds(tmp_path, 2, *options(broker, settings.topic))


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("workers", [1, 2])
def test_the_same_in_a_hundred_rounds_with_a_topic(
    broker: KafkaBroker, settings: KafkaTopicSettings, tmp_path: Path, workers: int
) -> None:
    made = kill_rounds(tmp_path, 100, *options(broker, settings.topic), f"workers={workers}")
    print(workers, "workers:", made, "changes acknowledged")

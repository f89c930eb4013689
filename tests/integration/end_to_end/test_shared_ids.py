"""Several connections under one client instance id: of one client, of a client that came back, and of a thief.

Ids are no secrets: they stand in `/clients`, on Prometheus pages and in logs. Where clients share a principal, whoever
reads one can send it. The true client must never get a code that switches its telemetry off for that, nor wait for
ever.
"""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from support.clients.raw_client import RawClient, Subscription
from support.payloads.payloads import metrics_data
from support.programs.node import Node
from support.waiting import pause, ticking

from fleetgauge.push_log.embedded.inspect import records_after
from fleetgauge.telemetry.push_record import format_instance_id

pytestmark = pytest.mark.integration

INTERVAL_MS = 1_000
NONE, INVALID_REQUEST, THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SUBSCRIPTION_ID = 0, 42, 89, 117
RARE, RARE_INTERVAL_MS = "rare", 3_600_000
"""A client id and its interval, for what has to happen within one interval however busy the machine is."""
CONFIG = f"""
[client-metrics.all]
metrics = "*"
interval.ms = {INTERVAL_MS}
match = "client_id=raw|app-[0-9]|thief"
[client-metrics.rare]
metrics = "*"
interval.ms = {RARE_INTERVAL_MS}
match = "client_id={RARE}"
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("shared-ids"), config=CONFIG) as running:
        yield running


@pytest.fixture
def opened(node: Node) -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


class Connection(RawClient):
    """A connection that has told its software, as real clients do before anything else."""

    def __init__(
        self, node: Node, *, name: str = "apache-kafka-java", client_id: str = "raw", source: str | None = None
    ) -> None:
        super().__init__(node.port, client_id=client_id, source=source)
        self.api_versions(name=name)


def received_ms(node: Node, instance_id: uuid.UUID) -> list[float]:
    """When the node received each push of this id that it took [ms since the epoch], by its own log."""
    records = (record for _, record in records_after(node.data / "push-log"))
    return [each.received_at / 1_000 for each in records if each.client_instance_id == format_instance_id(instance_id)]


def push(connection: RawClient, subscription: Subscription, *, terminating: bool = False) -> int:
    answer = connection.push(subscription, metrics_data(), terminating=terminating)
    assert answer.throttle_time_ms == 0
    return answer.error_code


def wait_an_interval() -> None:
    pause((INTERVAL_MS + 5) / 1_000, "the next push is due an interval after the last one, by the node's clock")


def test_a_client_that_gets_on_one_connection_and_pushes_on_another_is_taken(node: Node, opened: ExitStack) -> None:
    first, second = (opened.enter_context(Connection(node)) for _ in range(2))
    subscription = first.get()
    for _ in range(2):
        assert push(second, subscription) == NONE
        wait_an_interval()


def test_a_client_that_reconnects_goes_on(node: Node, opened: ExitStack) -> None:
    first = opened.enter_context(Connection(node))
    subscription = first.get()
    assert push(first, subscription) == NONE
    second = opened.enter_context(Connection(node))  # before the node has seen the end of the first
    wait_an_interval()
    assert push(second, subscription) == NONE
    second.close()
    third = opened.enter_context(Connection(node))
    wait_an_interval()
    assert push(third, subscription) == NONE


def test_a_client_that_reconnects_within_its_interval_waits_for_the_end_of_it(node: Node, opened: ExitStack) -> None:
    first = opened.enter_context(Connection(node, client_id=RARE))
    subscription = first.get()
    assert subscription.push_interval_ms == RARE_INTERVAL_MS
    assert push(first, subscription) == NONE
    second = opened.enter_context(Connection(node, client_id=RARE))
    assert push(second, subscription) == THROTTLING_QUOTA_EXCEEDED


def test_a_client_that_fails_over_to_another_node_goes_on_and_may_come_back(
    node: Node, opened: ExitStack, tmp_path_factory: pytest.TempPathFactory
) -> None:
    at_first = opened.enter_context(Connection(node))
    subscription = at_first.get()
    assert push(at_first, subscription) == NONE
    with Node(tmp_path_factory.mktemp("other-node"), "workers=2", config=CONFIG) as other:
        for _ in range(8):  # to both workers, but for one case in 256
            with Connection(other) as connection:
                wait_an_interval()
                assert push(connection, subscription) == NONE
    assert push(at_first, subscription) == NONE


def test_clients_behind_one_address_do_not_share_a_turn(node: Node, opened: ExitStack) -> None:
    clients = [opened.enter_context(Connection(node, client_id=f"app-{number % 3}")) for number in range(20)]
    subscriptions = [each.get() for each in clients]
    assert len({each.client_instance_id for each in subscriptions}) == len(clients)
    for _ in range(2):
        assert {push(*each) for each in zip(clients, subscriptions, strict=True)} == {NONE}
        wait_an_interval()


THIEVES = {
    "another address": {"source": "127.0.0.66"},
    "another client id": {"client_id": "thief"},
    "another software": {"name": "librdkafka"},
    "another connection, all else forged": {},
}


@pytest.mark.parametrize("forged", THIEVES.values(), ids=THIEVES)
@pytest.mark.parametrize("thief_is_first", [False, True])
def test_a_thief_neither_mutes_nor_starves_a_client(
    node: Node, opened: ExitStack, forged: dict[str, str], thief_is_first: bool
) -> None:
    """It terminates, pushes and Gets under the id of another client, as fast as it is answered."""
    true_id = uuid.uuid4()
    client = opened.enter_context(Connection(node))
    thieves = [opened.enter_context(Connection(node, **forged)) for _ in range(3)]
    subscription = (thieves[0] if thief_is_first else client).get(true_id)
    assert subscription.error_code == NONE
    answers = [] if thief_is_first else [push(client, subscription)]
    for _ in range(4):
        for _ in ticking((INTERVAL_MS + 5) / 1_000, every_s=0):
            for number, thief in enumerate(thieves):
                push(thief, subscription, terminating=number == 2)
                thief.get(true_id)
        answers.append(push(client, subscription))
    assert answers.count(NONE) >= len(answers) - 1, answers  # the first may wait for an interval
    assert set(answers) <= {NONE, THROTTLING_QUOTA_EXCEEDED}
    assert answers[-2:] == [NONE, NONE]


def test_a_terminated_connection_stays_so_and_another_one_is_taken(node: Node, opened: ExitStack) -> None:
    thief, client = (opened.enter_context(Connection(node)) for _ in range(2))
    subscription = client.get()
    assert push(thief, subscription, terminating=True) == NONE
    assert push(thief, subscription) == INVALID_REQUEST
    wait_an_interval()
    assert push(client, subscription) == NONE
    assert push(thief, subscription) == INVALID_REQUEST


@pytest.mark.parametrize("comes_later", [False, True], ids=["the client opens another connection", "it comes later"])
def test_thieves_that_hold_every_seat_and_end_it_do_not_end_a_connection_that_opens_after_them(
    node: Node, opened: ExitStack, comes_later: bool
) -> None:
    client = opened.enter_context(Connection(node))
    true_id = uuid.uuid4()
    thieves = [opened.enter_context(Connection(node)) for _ in range(7)]
    subscription = (thieves[0] if comes_later else client).get(true_id)
    if not comes_later:
        assert push(client, subscription) == NONE
    for thief in thieves:
        wait_an_interval()
        push(thief, subscription)
        push(thief, subscription, terminating=True)
    another = opened.enter_context(Connection(node))
    answers = []
    for _ in range(3):
        answers.append(push(another, subscription))
        wait_an_interval()
    assert set(answers) <= {NONE, THROTTLING_QUOTA_EXCEEDED}
    assert answers[1:] == [NONE, NONE]
    if not comes_later:
        assert push(client, subscription) == NONE


def test_errors_that_a_get_cures_do_not_evade_the_interval(node: Node, opened: ExitStack) -> None:
    """A last push need not be due, and its refusal gives it back: with the Get that cures it, it opens no gate."""
    client = opened.enter_context(Connection(node, client_id=RARE))
    subscription = client.get()
    assert push(client, subscription) == NONE
    for _ in range(20):
        wrong = client.push(subscription, metrics_data(), subscription_id=1, terminating=True)
        assert wrong.error_code == UNKNOWN_SUBSCRIPTION_ID
        client.get(subscription.client_instance_id)
        assert push(client, subscription) == THROTTLING_QUOTA_EXCEEDED


def test_many_connections_do_not_evade_the_interval(node: Node, opened: ExitStack) -> None:
    """Whoever opens fifty has five turns an interval at most, and one in the first."""
    crowd = [opened.enter_context(Connection(node)) for _ in range(50)]
    subscription = crowd[0].get()
    assert push(crowd[0], subscription) == NONE
    for _ in range(3):
        wait_an_interval()
        assert [push(each, subscription) for each in crowd].count(NONE) >= 1
    taken_ms = sorted(received_ms(node, subscription.client_instance_id))
    apart = [sixth - first for first, sixth in zip(taken_ms, taken_ms[5:], strict=False)]
    # A turn is judged by another clock than the log's, read a moment before it; without a rule all come at once.
    assert all(each >= INTERVAL_MS / 2 for each in apart), taken_ms


def test_many_connections_have_one_turn_in_the_first_interval(node: Node, opened: ExitStack) -> None:
    crowd = [opened.enter_context(Connection(node, client_id=RARE)) for _ in range(50)]
    subscription = crowd[0].get()
    assert [push(each, subscription) for each in crowd].count(NONE) == 1


def test_many_connections_have_one_terminating_push_in_an_interval(node: Node, opened: ExitStack) -> None:
    crowd = [opened.enter_context(Connection(node, client_id=RARE)) for _ in range(6)]
    subscription = crowd[0].get()
    assert push(crowd[0], subscription) == NONE
    answers = [push(each, subscription, terminating=True) for each in crowd]
    assert answers == [NONE] + [THROTTLING_QUOTA_EXCEEDED] * 5


def test_a_thief_with_another_software_does_not_change_what_a_client_is_asked_for(
    node: Node, opened: ExitStack
) -> None:
    """librdkafka 2.5.0 is asked for something else than a Java client: under one id, both keep what is theirs."""
    client = opened.enter_context(Connection(node))
    subscription = client.get()
    thief = opened.enter_context(Connection(node, name="librdkafka"))
    thief.get(subscription.client_instance_id)
    assert push(client, subscription) == NONE
    wait_an_interval()
    assert push(client, subscription) == NONE

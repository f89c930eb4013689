"""The telemetry quotas of a node whose clock is moved by hand: who is slowed, by how much, when, and who is refused."""

import uuid
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from unit.telemetry.node import Client, Node

from fleetgauge.base.clock import MockTime
from fleetgauge.base.errors import ErrorCode
from fleetgauge.base.principal import ANONYMOUS, KafkaPrincipal
from fleetgauge.quotas.client_quota import ClientQuotaManager, ClientQuotaManagerConfig
from fleetgauge.quotas.entity import DEFAULT_CLIENT_ID_ENTITY, ClientIdEntity, ConfigEntity, UserEntity
from fleetgauge.quotas.identities import Identities
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.quotas.quota_type import QuotaType
from fleetgauge.telemetry.subscriptions.interval_bound import LIBRDKAFKA_MAX_INTERVAL_MS
from fleetgauge.telemetry.subscriptions.interval_scaling import INTERVALS_BETWEEN_CHANGES, TelemetryIntervalScaling

NONE, UNKNOWN, THROTTLED = ErrorCode.NONE, ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.THROTTLING_QUOTA_EXCEEDED
MINUTE = 60_000
TEAM = UserEntity.of("ANONYMOUS")


class Quotas:
    """The telemetry quotas of a node; what is set holds at once."""

    def __init__(self, time: MockTime, metrics: Metrics) -> None:
        config = ClientQuotaManagerConfig()
        self.pushes = ClientQuotaManager(config, metrics, QuotaType.TELEMETRY_PUSH, time)
        self.payloads = ClientQuotaManager(config, metrics, QuotaType.TELEMETRY_BYTE, time)
        self.pace = TelemetryIntervalScaling(self.pushes, self.payloads, Identities())

    def set(
        self,
        manager: ClientQuotaManager,
        limit: float | None,
        user: ConfigEntity | None = TEAM,
        client: ConfigEntity | None = None,
    ) -> None:
        manager.update_quota(user, client, None if limit is None else Quota.upper_bound(limit))
        self.pace.quotas_changed()


class PacedNode(Node):
    """A node with telemetry quotas that can be set."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(pace_of=self._pace_of, **settings)

    def _pace_of(self, time: MockTime, metrics: Metrics) -> TelemetryIntervalScaling:
        self.quotas = Quotas(time, metrics)
        return self.quotas.pace


class PacedClient:
    """A client that does as it is told: after a Get it waits for its interval, and asks again where it is unknown."""

    def __init__(self, node: PacedNode, **context: Any) -> None:
        self.node = node
        self.client = Client(node, **context)
        self.interval_ms = self.client.get().push_interval_ms
        self.answers: list[ErrorCode] = []
        self.intervals = [self.interval_ms]
        self.due_ms = node.time.hi_res_clock_ms() + self.interval_ms

    def push_if_due(self, **fields: Any) -> None:
        if self.node.time.hi_res_clock_ms() >= self.due_ms:
            self.push(**fields)

    def push(self, **fields: Any) -> ErrorCode:
        answer: ErrorCode = self.client.answer(**fields)
        self.answers.append(answer)
        if answer is UNKNOWN:
            self.interval_ms = self.client.get().push_interval_ms
            self.intervals.append(self.interval_ms)
        self.due_ms = self.node.time.hi_res_clock_ms() + self.interval_ms
        return answer


Paced = Callable[..., PacedNode]
Team = Callable[..., list[PacedClient]]


@pytest.fixture
def paced() -> Paced:
    """A node with telemetry quotas that can be set."""

    return PacedNode


@pytest.fixture
def team() -> Team:
    def make(node: PacedNode, count: int, **context: Any) -> list[PacedClient]:
        return [PacedClient(node, connection=f"c{n}-{uuid.uuid4()}", **context) for n in range(count)]

    return make


def run(node: PacedNode, clients: list[PacedClient], minutes: float, **fields: Any) -> None:
    """Lets time go by in steps of a second, and every client push when it is due."""
    for _ in range(round(minutes * 60)):
        node.time.sleep(1_000)
        for client in clients:
            client.push_if_due(**fields)


def test_without_a_telemetry_quota_nothing_is_recorded_and_nobody_slowed(paced: Paced, team: Team) -> None:
    node = paced()
    clients = team(node, 5)
    run(node, clients, 5)
    assert [client.intervals for client in clients] == [[MINUTE]] * 5
    assert not [name for name in node.metrics.metrics() if name.name == "push-rate"]


def test_a_team_over_its_quota_is_given_the_power_of_two_of_its_interval_that_brings_it_within(
    paced: Paced, team: Team
) -> None:
    node = paced()
    node.quotas.set(node.quotas.pushes, 3 / 60)
    clients = team(node, 10)
    run(node, clients, 60)
    assert {client.interval_ms for client in clients} == {4 * MINUTE}, "10 a minute, and 3 are allowed"
    for client in clients[2:]:
        node.disconnect(client.client.connection)
    run(node, clients[:2], 60)
    assert [client.intervals[-3:] for client in clients[:2]] == [[4 * MINUTE, 2 * MINUTE, MINUTE]] * 2
    others = {answer for client in clients for answer in client.answers} - {NONE, UNKNOWN}
    assert not others, "who does as it is told is never refused for a quota"


def test_bytes_have_a_quota_too_and_the_longer_interval_of_both_counts(paced: Paced, team: Team) -> None:
    node = paced()
    node.quotas.set(node.quotas.pushes, 1 / 60)
    node.quotas.set(node.quotas.payloads, 1_000 / 60)
    (client,) = team(node, 1)
    run(node, [client], 30, metrics=b"")
    assert client.interval_ms == MINUTE, "a push a minute without a byte is within both"
    (large,) = team(node, 1)
    payload = b"\x0a\x00" * 2_500
    run(node, [client, large], 90, metrics=payload)
    assert large.interval_ms == 16 * MINUTE, "two clients with 5,000 bytes a minute each are ten times the limit"


def test_a_client_has_one_change_in_five_of_its_intervals_however_much_its_team_changes(
    paced: Paced, team: Team
) -> None:
    node = paced()
    node.quotas.set(node.quotas.pushes, 1 / 60)
    node.quotas.set(node.quotas.pushes, 1.5 / 60)
    (client,) = team(node, 1)
    changes: list[tuple[int, int]] = []
    for count in (3, 9, 0, 5):
        others = team(node, count)
        for _ in range(60):
            run(node, [client, *others], 1)
            if not changes or changes[-1][1] != client.interval_ms:
                changes.append((node.time.hi_res_clock_ms(), client.interval_ms))
        for each in others:
            node.disconnect(each.client.connection)
    assert len(changes) > 4
    for (earlier, interval_ms), (later, _) in pairwise(changes[1:]):
        assert later - earlier >= (INTERVALS_BETWEEN_CHANGES * interval_ms) - MINUTE


def test_a_client_returns_step_by_step_once_its_team_needs_less(paced: Paced, team: Team) -> None:
    node = paced()
    node.quotas.set(node.quotas.pushes, 1.5 / 60)
    (client, *others) = team(node, 8)
    run(node, [client, *others], 120)
    assert client.interval_ms == 8 * MINUTE
    for each in others:
        node.disconnect(each.client.connection)
    run(node, [client], 240)
    assert client.intervals[-4:] == [8 * MINUTE, 4 * MINUTE, 2 * MINUTE, MINUTE]


def test_a_client_at_the_edge_of_a_step_does_not_go_to_and_fro(paced: Paced, team: Team) -> None:
    node = paced()
    node.quotas.set(node.quotas.payloads, 1_000 / 60)
    (client,) = team(node, 1)
    for size in (1_010, 990) * 40:
        run(node, [client], 1, metrics=b"\x0a\x00" * (size // 2))
    assert client.intervals == [MINUTE, 2 * MINUTE]


def test_raising_the_limit_at_run_time_brings_the_interval_back_and_keeps_what_was_used(
    paced: Paced, team: Team
) -> None:
    node = paced()
    node.quotas.set(node.quotas.pushes, 1 / 60)
    clients = team(node, 4)
    run(node, clients, 60)
    assert {client.interval_ms for client in clients} == {4 * MINUTE}
    for client in clients:
        client.push()
    tags = {"user": "ANONYMOUS", "client-id": ""}
    rate = node.metrics.metric(node.metrics.metric_name("push-rate", "TelemetryPush", tags=tags))
    assert rate is not None
    before = rate.measurable_value()
    node.quotas.set(node.quotas.pushes, 100)
    assert rate.measurable_value() == before
    node.quotas.set(node.quotas.pushes, None)
    run(node, clients, 120)
    assert {client.interval_ms for client in clients} == {MINUTE}


def test_another_team_is_not_slowed(paced: Paced, team: Team, alice: KafkaPrincipal) -> None:
    node = paced()
    node.quotas.set(node.quotas.pushes, 1 / 60)
    (other,) = team(node, 1, principal=alice)
    run(node, [other, *team(node, 20)], 30)
    assert other.intervals == [MINUTE]


def test_the_most_specific_quota_counts_and_client_ids_by_default_do_not_share(paced: Paced, team: Team) -> None:
    node = paced()
    node.quotas.set(node.quotas.pushes, 1 / 60, None, DEFAULT_CLIENT_ID_ENTITY)
    node.quotas.set(node.quotas.pushes, 4 / 60, None, ClientIdEntity("many"))
    many, one = team(node, 4, client_id="many"), team(node, 1, client_id="one")
    two = team(node, 2, client_id="two")
    run(node, [*many, *one, *two], 60)
    assert {client.interval_ms for client in (*many, *one)} == {MINUTE}
    assert {client.interval_ms for client in two} == {2 * MINUTE}


def test_no_interval_is_longer_than_an_hour_nor_than_a_client_bears(paced: Paced, team: Team) -> None:
    node = paced()
    node.quotas.set(node.quotas.pushes, 1e-9)
    (java,) = team(node, 1)
    rdkafka = team(node, 1, client_software_name="librdkafka", client_software_version="2.10.0")[0]
    run(node, [java, rdkafka], 240)
    assert (java.interval_ms, rdkafka.interval_ms) == (3_600_000, LIBRDKAFKA_MAX_INTERVAL_MS)
    assert {answer for each in (java, rdkafka) for answer in each.answers} == {NONE, UNKNOWN}


def test_a_client_that_comes_back_finds_its_longer_interval_again(paced: Paced, team: Team) -> None:
    node = paced()
    node.quotas.set(node.quotas.pushes, 0.5 / 60)
    (client,) = team(node, 1)
    while client.interval_ms == MINUTE:
        run(node, [client], 1)
    assert client.interval_ms == 2 * MINUTE, "and it comes on another connection already with its next push"
    for connection in ("c2", "c3"):
        node.disconnect(client.client.connection)
        node.time.sleep(2 * MINUTE)
        node.expire()
        client.client.connection = connection
        assert client.push() is NONE, "no round trip for a reconnect"


def test_a_client_that_reconnects_while_its_team_is_over_the_quota_is_not_taken_for_one_that_ignores_it(
    paced: Paced, team: Team, make_client: type[Client]
) -> None:
    node = paced()
    (client,) = team(node, 1)
    assert client.push() is NONE
    node.quotas.set(node.quotas.pushes, 1 / 60)
    node.time.sleep(MINUTE)
    assert client.push() is NONE
    node.disconnect(client.client.connection)
    node.time.sleep(MINUTE)
    other = make_client(node, "of-the-team")
    other.get()
    assert other.answer() is NONE, "which takes the whole limit for the next windows"
    client.client.connection = "another"
    assert client.push() is NONE
    node.disconnect("another")
    client.client.connection = "a third"
    assert client.push() is THROTTLED, "at once on a new connection again"


def test_who_ignores_its_interval_is_refused_while_the_team_is_over_its_quota(
    paced: Paced, team: Team, make_client: type[Client]
) -> None:
    """Clients made up one after the other, each pushing right after its Get."""
    node = paced()
    node.quotas.set(node.quotas.pushes, 1.0)
    obeying = team(node, 1)[0]
    answers = []
    for number in range(50):
        made_up = make_client(node, f"made-up-{number}")
        made_up.get()
        answers.append(made_up.answer())
    assert answers == [NONE] * 11 + [THROTTLED] * 39, "ten windows of one, and the one that goes beyond"
    assert node.manager.figures.refusals() == {"THROTTLING_QUOTA_EXCEEDED": {"telemetry_quota": 39}}
    node.time.sleep(MINUTE)
    assert obeying.push() in (NONE, UNKNOWN)
    assert THROTTLED not in obeying.answers


def test_one_that_was_refused_for_the_quota_is_taken_when_it_keeps_to_its_interval(
    paced: Paced, make_client: type[Client]
) -> None:
    node = paced()
    node.quotas.set(node.quotas.pushes, 0.001)
    hasty = make_client(node)
    interval_ms = hasty.get().push_interval_ms
    other = make_client(node, "c2")
    other.get()
    assert (other.answer(), hasty.answer()) == (NONE, UNKNOWN), "first it is given a longer interval"
    longer_ms = hasty.get().push_interval_ms
    assert longer_ms > interval_ms
    assert hasty.answer() is THROTTLED, "and refused as it does not keep to that"
    node.time.sleep(longer_ms)
    assert hasty.answer() is NONE


def test_a_last_push_is_taken_of_who_pushed_before_and_counts_for_others_as_any_push(
    paced: Paced, make_client: type[Client]
) -> None:
    node = paced()
    node.quotas.set(node.quotas.pushes, 0.001)
    known, unknown = make_client(node), make_client(node, "c2")
    known.get()
    unknown.get()
    assert known.answer() is NONE
    assert known.answer(terminating=True) is NONE, "goodbye"
    assert unknown.answer(terminating=True) is THROTTLED, "a job that lives for a second keeps to no interval"


def test_nothing_is_left_of_clients_that_are_gone(paced: Paced, team: Team) -> None:
    node = paced()
    node.quotas.set(node.quotas.pushes, 1 / 60, None, DEFAULT_CLIENT_ID_ENTITY)
    for number in range(3):
        run(node, team(node, 3, client_id=f"app-{number}"), 10)
    assert node.manager.figures.counters()["instances_slowed"] == 9
    tags = [{"user": "", "client-id": f"app-{number}"} for number in range(4)]
    assert [node.quotas.pace.slowed_by("TelemetryPush", each) for each in tags] == [3, 3, 3, 0]
    assert node.quotas.pace.slowed_by("TelemetryByte", tags[0]) == 0
    node.time.sleep(3_600_000)
    node.expire()
    node.expire()
    assert node.manager.figures.counters()["instances_slowed"] == 0
    assert node.quotas.pace._sharers == ({}, {})


def test_made_up_client_ids_share_one_quota_when_there_are_too_many() -> None:
    identities = Identities(max_identities=2)
    identities.name("known", 1)
    names = [identities.of(ANONYMOUS, name, 0).client_id for name in ("a", "b", "c", "known", "d", "a")]
    assert names == ["a", "b", "<others>", "known", "<others>", "a"]
    assert identities.shared == 2
    assert identities.of(ANONYMOUS, "c", 3_600_000).client_id == "c", "an hour later there is room again"
    assert len(identities.of(ANONYMOUS, "x" * 30_000, 3_600_000).client_id) == 1_024

"""Handlers of admin requests: what they answer when the state cannot be written, and what they do not take."""

import asyncio
import struct
import sys
import threading
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from structlog.testing import capture_logs
from support.waiting import PATIENCE_S

from fleetgauge.base.clock import MockTime
from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.node import audit
from fleetgauge.node.authorizer.settings import AuthorizationSettings
from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.listener.apis import admin
from fleetgauge.node.listener.apis.admin import AdminApis
from fleetgauge.node.listener.apis.broker_configs import BrokerConfigs
from fleetgauge.node.listener.apis.configs import ConfigApis
from fleetgauge.node.state.authorization import Authorization
from fleetgauge.node.state.client_metrics import ClientMetrics
from fleetgauge.node.state.node_state import NodeState
from fleetgauge.node.state.store import State, StateStore, UncertainChangeError
from fleetgauge.push_log.log import PushLogError, PushLogFullError
from fleetgauge.telemetry.subscriptions.resources import Subscriptions
from fleetgauge.wire.errors import ProtocolError
from fleetgauge.wire.messages.codec import Request

LIST, INCREMENTAL = 74, 44
CLIENT_METRICS = 16


class FullStore(StateStore):
    """A disk without room."""

    def change(self, alter: Callable[[State], State]) -> State:
        alter(self.read())
        raise PushLogFullError("no room left on the disk")


class Channel:
    listener_name = "PLAINTEXT"
    principal = KafkaPrincipal("User", "alice")
    client_address = "10.1.2.3"

    def __init__(self) -> None:
        self.responses: list[bytes] = []
        self.closed: list[str] = []

    def respond(self, slot: int, response: bytes) -> None:
        self.responses.append(response)

    def flush(self) -> None:
        pass

    def close(self, reason: str) -> None:
        self.closed.append(reason)


class Node:
    """The handlers over a store; run by `requested`."""

    def __init__(self, store: StateStore, listeners: set[str]) -> None:
        self.in_force, time, unused = Subscriptions(), MockTime(), None
        state, client_metrics = NodeState(store, time), ClientMetrics(self.in_force, {}, 10)
        state.add(client_metrics)
        brokers = BrokerConfigs(ServiceConfig())
        open_to_all = Authorization(AuthorizationSettings(), time)
        self.apis = AdminApis(state, [ConfigApis(client_metrics, brokers)], open_to_all, listeners, unused, time)  # type: ignore[arg-type]


def encoded(message: Any) -> bytes:
    buffer = BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def alteration(*names: str, validate_only: bool = False) -> bytes:
    schema: Any = load_request_schema(INCREMENTAL, 1)
    module = sys.modules[schema.__module__]
    config = module.AlterableConfig(name="metrics", config_operation=0, value="org.apache.kafka.producer.")
    resources = tuple(
        module.AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=(config,))
        for name in names
    )
    return encoded(schema(resources=resources, validate_only=validate_only))


def requested(store: StateStore, *bodies: bytes, api_key: int = INCREMENTAL) -> tuple[Channel, Subscriptions]:
    """The connection after these requests, all sent at once."""

    async def run() -> tuple[Channel, Subscriptions]:
        node, channel = Node(store, {"PLAINTEXT"}), Channel()
        for body in bodies:
            assert node.apis.handle(channel, Request(api_key, 1, 5, "test", body)) is None  # type: ignore[arg-type]
        await node.apis.close(10_000)
        return channel, node.in_force

    return asyncio.run(run())


def errors_of(response: bytes) -> list[tuple[int, str | None]]:
    schema: Any = load_response_schema(INCREMENTAL, 1)
    message, _ = entity_reader(schema)(response, 9)
    return [(each.error_code.value, each.error_message) for each in message.responses]


def test_a_change_that_cannot_be_written_is_answered_so_and_not_in_force(tmp_path: Path) -> None:
    channel, in_force = requested(FullStore(tmp_path / "state.db"), alteration("A", "B"))
    text = "the node cannot write its state: no room left on the disk"
    assert errors_of(channel.responses[0]) == [(-1, text), (-1, text)]
    assert in_force.names() == ()


def test_a_validation_writes_nothing_and_needs_no_room(tmp_path: Path) -> None:
    channel, in_force = requested(FullStore(tmp_path / "state.db"), alteration("A", "", validate_only=True))
    assert errors_of(channel.responses[0]) == [(0, None), (42, "Subscription name can't be empty")]
    assert in_force.names() == ()


def test_a_refused_resource_does_not_keep_the_others_from_their_change(tmp_path: Path) -> None:
    channel, in_force = requested(StateStore(tmp_path / "state.db"), alteration("A", "", "B"))
    assert [code for code, _ in errors_of(channel.responses[0])] == [0, 42, 0]
    assert in_force.names() == ("A", "B")


def test_requests_are_answered_in_their_order(tmp_path: Path) -> None:
    channel, in_force = requested(StateStore(tmp_path / "state.db"), *(alteration(f"r{n}") for n in range(12)))
    codes = [errors_of(response)[0][0] for response in channel.responses]
    assert codes == [0] * 10 + [44] * 2  # one is refused beyond the bound, after those before it
    assert len(in_force.names()) == 10


@pytest.mark.parametrize("body", [b"", b"\xff\xff\xff\xff\xff\xff", b"\x05\x10"])
def test_a_malformed_request_closes_its_connection(tmp_path: Path, body: bytes) -> None:
    channel, _ = requested(StateStore(tmp_path / "state.db"), body)
    assert (channel.responses, channel.closed) == ([], ["malformed_body"])


def test_what_is_too_large_or_too_much_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = StateStore(tmp_path / "state.db")
    with pytest.raises(ProtocolError, match="admin_request_too_large"):
        requested(store, bytes(admin.MAX_REQUEST_BYTES + 1))
    many = requested(store, alteration(*(f"r{number}" for number in range(admin.MAX_RESOURCES + 1))))
    assert (many[0].closed, many[1].names()) == (["too_many_admin_resources"], ())
    monkeypatch.setattr(admin, "MAX_WAITING_BYTES", 4_000)
    with pytest.raises(ProtocolError, match="too_many_admin_requests"):
        requested(store, *[alteration("A")] * 5)
    assert requested(store, *[alteration("A")] * 3)[0].closed == []


def test_a_tool_is_answered_before_a_hundred_requests_that_came_earlier_on_another_connection(tmp_path: Path) -> None:
    async def run() -> tuple[Channel, int]:
        node, flood, tool = Node(StateStore(tmp_path / "state.db"), {"PLAINTEXT"}), Channel(), Channel()
        for _ in range(100):
            node.apis.handle(flood, Request(INCREMENTAL, 1, 5, "test", alteration("A")))  # type: ignore[arg-type]
        node.apis.handle(tool, Request(LIST, 1, 5, "test", b"\x01\x00"))  # type: ignore[arg-type]
        while not tool.responses:
            await asyncio.sleep(0)
        answered = len(flood.responses)
        node.apis.connection_lost(flood)  # type: ignore[arg-type]
        await node.apis.close(10_000)
        assert len(flood.responses) <= answered + 1
        return tool, answered

    tool, answered = asyncio.run(run())
    assert (tool.closed, answered) == ([], 1)


def test_beyond_the_bound_of_waiting_requests_the_connection_with_the_most_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "MAX_WAITING_BYTES", 4_000)

    async def run() -> None:
        node, flood, tool = Node(StateStore(tmp_path / "state.db"), {"PLAINTEXT"}), Channel(), Channel()
        for _ in range(3):
            node.apis.handle(flood, Request(INCREMENTAL, 1, 5, "test", alteration("A")))  # type: ignore[arg-type]
        node.apis.handle(tool, Request(LIST, 1, 5, "test", b"\x01\x00"))  # type: ignore[arg-type]
        await node.apis.close(10_000)
        assert (flood.closed, len(flood.responses)) == (["too_many_admin_requests"], 0)
        assert (tool.closed, len(tool.responses)) == ([], 1)

    asyncio.run(run())


def test_requests_that_fail_alike_are_one_line_of_the_log(tmp_path: Path) -> None:
    """While a broker or disk hangs, each request of a tool that repeats fails at once."""

    class Unreadable(StateStore):
        def read_if_changed(self) -> State | None:
            raise PushLogError("it cannot be read")

    async def run() -> list[list[str]]:
        node, channels = Node(Unreadable(tmp_path / "state.db"), {"PLAINTEXT"}), [Channel() for _ in range(100)]
        for each in channels:
            node.apis.handle(each, Request(LIST, 1, 5, "test", b"\x01\x00"))  # type: ignore[arg-type]
        await node.apis.close(10_000)
        return [each.closed for each in channels]

    with capture_logs() as logs:
        assert asyncio.run(run()) == [["admin_request_failed"]] * 100
    assert [line["event"] for line in logs] == ["admin.request_failed"]


def test_a_change_that_is_made_after_its_time_is_audited_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held, recorded = threading.Event(), threading.Event()

    class Slow(StateStore):
        def change(self, alter: Callable[[State], State]) -> State:
            held.wait(PATIENCE_S)
            return super().change(alter)

    monkeypatch.setattr(NodeState, "within_s", 0.05)
    monkeypatch.setattr(audit, "record", lambda *_, **__: recorded.set())
    channel, _ = requested(Slow(tmp_path / "state.db"), alteration("A"))
    assert (channel.closed, recorded.is_set()) == (["admin_request_failed"], False)
    held.set()
    assert recorded.wait(PATIENCE_S)
    assert "A" in StateStore(tmp_path / "state.db").read()["client_metrics"]


def test_a_change_of_which_it_is_not_known_whether_it_was_made_is_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lost(StateStore):
        def change(self, alter: Callable[[State], State]) -> State:
            raise UncertainChangeError("the brokers are lost")

    recorded: list[Any] = []
    monkeypatch.setattr(audit, "record", lambda *who, **fields: recorded.append((who, fields)))
    channel, _ = requested(Lost(tmp_path / "state.db"), alteration("A"))
    assert (channel.responses, channel.closed) == ([], ["admin_request_failed"])
    reason = {"api": "INCREMENTAL_ALTER_CONFIGS", "reason": "the brokers are lost"}
    assert recorded == [(("change.uncertain", "User:alice", "10.1.2.3"), reason)]


def test_after_a_malformed_request_those_that_the_connection_sent_behind_it_are_not_carried_out(tmp_path: Path) -> None:
    channel, in_force = requested(StateStore(tmp_path / "state.db"), b"\x05\x10", alteration("A"), alteration("B"))
    assert (channel.responses, channel.closed, in_force.names()) == ([], ["malformed_body"], ())


def test_elsewhere_a_request_is_refused_at_once_and_one_that_is_large_is_not_read(tmp_path: Path) -> None:
    node, channel = Node(StateStore(tmp_path / "state.db"), {"ADMIN"}), Channel()
    response = node.apis.handle(channel, Request(INCREMENTAL, 1, 5, "test", alteration("A")))  # type: ignore[arg-type]
    assert response is not None
    assert errors_of(response) == [(31, admin.NOT_SERVED_HERE)]
    listed = node.apis.handle(channel, Request(LIST, 1, 5, "test", b"\x01\x00"))  # type: ignore[arg-type]
    assert listed is not None
    assert struct.unpack_from(">h", listed, 13) == (31,)
    long = alteration("A") + bytes(admin.MAX_REFUSED_SEVERAL_BYTES)
    response = node.apis.handle(channel, Request(INCREMENTAL, 1, 5, "test", long))  # type: ignore[arg-type]
    assert response is not None
    assert errors_of(response) == [(31, admin.NOT_SERVED_HERE)]
    response = node.apis.handle(channel, Request(INCREMENTAL, 1, 5, "test", alteration("A", "B")))  # type: ignore[arg-type]
    assert response is not None
    assert errors_of(response) == [(31, admin.NOT_SERVED_HERE)] * 2
    many = alteration(*(f"r{number}" for number in range(100)))
    for body in (bytes(admin.MAX_REFUSED_BYTES + 1), many):
        with pytest.raises(ProtocolError, match="admin_request_refused"):
            node.apis.handle(channel, Request(INCREMENTAL, 1, 5, "test", body))  # type: ignore[arg-type]
    for body in (b"", b"\x02", b"\x02\x10\x7fab", b"\x02\x10\x00", b"\x02\x10\x02\xff"):
        with pytest.raises(ProtocolError, match="malformed_body"):
            node.apis.handle(channel, Request(INCREMENTAL, 1, 5, "test", body))  # type: ignore[arg-type]
    assert node.in_force.names() == ()

"""Addresses behind the records of a response: no broker's address passes, and nothing else changes, size included."""

import contextlib
import dataclasses
import random
import struct
from datetime import timedelta
from typing import Any

import pytest
from kio.serial.readers import read_unsigned_varint
from support.gateway.gateway_traffic import Relay, encoded, request, response, response_schema
from support.payloads.made_messages import Made

from fleetgauge.gateway.apis import PASSED, PRODUCE
from fleetgauge.gateway.in_flight import InFlight
from fleetgauge.gateway.requests.layout import response_layout
from fleetgauge.gateway.responses.hidden_endpoints import has_hidden_endpoints
from fleetgauge.gateway.rules import ClientConnection, NoRules, Patched, RequestVerdict
from fleetgauge.wire.errors import ProtocolError

VERSIONS = [(1, 16), (1, 17), (1, 18), (78, 1), (78, 2), (79, 1), (79, 2)]
MAPPED = ("*=g:1",)


def made(api_key: int, version: int) -> Any:
    return Made([1, 2, 300]).message(response_schema(api_key, version))


def hidden(raw: bytes, api_key: int, version: int, step: int = 1 << 30, relay: Relay | None = None) -> bytes:
    """What a client gets of a response that arrives in pieces of `step` bytes."""
    relay = relay or Relay(MAPPED)
    relay.from_client(request(api_key, version, 5, b""))
    return b"".join(relay.from_broker(raw[at : at + step]) for at in range(0, len(raw), step))


def is_without_endpoints(raw: bytes, message: Any) -> bool:
    """True if a frame has this message without endpoints, and a tagged field that says nothing in their place."""
    expected = encoded(dataclasses.replace(message, node_endpoints=()))
    body, rest = raw[9 : 9 + len(expected) - 1], raw[9 + len(expected) - 1 :]
    size, length = read_unsigned_varint(rest, 2)
    return body == expected[:-1] and rest[:2] == b"\x01\x7f" and rest[2 + length :] == bytes(size)


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 7, 1_000, 1 << 30])
@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_no_address_passes_and_nothing_else_changes(api_key: int, version: int, step: int) -> None:
    message = made(api_key, version)
    raw = response(api_key, version, 5, encoded(message))
    got = hidden(raw, api_key, version, step)
    assert b"10.0.0." in raw
    assert b"10.0.0." not in got
    assert len(got) == len(raw)
    assert is_without_endpoints(got, message)


@pytest.mark.parametrize("count", [1, 2, 200])
@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_any_number_of_addresses(api_key: int, version: int, count: int) -> None:
    message = made(api_key, version)
    many = dataclasses.replace(message, node_endpoints=message.node_endpoints[:1] * count)
    raw = response(api_key, version, 5, encoded(many))
    got = hidden(raw, api_key, version)
    assert len(got) == len(raw)
    assert is_without_endpoints(got, message)


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [MAPPED, ()])
@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_responses_without_addresses_and_those_of_gateways_that_map_none_pass_as_they_are(
    api_key: int, version: int, nodes: tuple[str, ...]
) -> None:
    message = made(api_key, version)
    if nodes:
        message = dataclasses.replace(message, node_endpoints=())
    raw = response(api_key, version, 5, encoded(message))
    assert hidden(raw, api_key, version, relay=Relay(nodes)) == raw
    assert hidden(raw, api_key, version, 1, relay=Relay(nodes)) == raw


@pytest.mark.slow
def test_responses_in_turn_with_answers_of_the_gateway_and_others() -> None:
    relay = Relay(MAPPED)
    fetched = response(1, 18, 5, encoded(made(1, 18)))
    shared = response(78, 2, 5, encoded(made(78, 2)))
    older = response(1, 15, 5, b"records" * 100)
    requests = [(1, 18), (1, 15), (78, 2), (1, 18), (1, 15)]
    relay.from_client(b"".join(request(key, version, 5, b"") for key, version in requests))
    raw = fetched + older + shared + fetched + older
    for step in (1 << 30, 1, 11):
        got = b"".join(relay.from_broker(raw[at : at + step]) for at in range(0, len(raw), step))
        alone = hidden(fetched, 1, 18)
        assert got == alone + older + hidden(shared, 78, 2) + alone + older
        relay.from_client(b"".join(request(key, version, 5, b"") for key, version in requests))


class Throttling(NoRules):
    """Has a longer throttle time in every response."""

    def request(self, connection: ClientConnection, request: InFlight, body: bytes, now_ns: int) -> RequestVerdict:
        request.response_bytes = 16
        return None

    def response(
        self, connection: ClientConnection, request: InFlight, size: int, body: bytes, now_ns: int
    ) -> Patched | None:
        return Patched(struct.pack(">i", 1_234) + body[4:])


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 13, 1 << 30])
@pytest.mark.parametrize("has_topics", [True, False])
@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_a_response_that_rules_change_hides_them_too(api_key: int, version: int, has_topics: bool, step: int) -> None:
    """Without topics, what the rules see reaches into the addresses."""
    message = made(api_key, version)
    if not has_topics:
        message = dataclasses.replace(message, responses=())
    raw = response(api_key, version, 5, encoded(message))
    got = hidden(raw, api_key, version, step, Relay(MAPPED, rules=Throttling()))
    assert is_without_endpoints(got, dataclasses.replace(message, throttle_time=timedelta(milliseconds=1_234)))


@pytest.mark.slow
def test_a_response_of_very_many_partitions_is_read_to_its_end() -> None:
    message = made(1, 18)
    (topic, *_), records = message.responses, b""
    partition = dataclasses.replace(topic.partitions[0], records=records)
    topic = dataclasses.replace(topic, partitions=(partition,) * 30_000)
    raw = response(1, 18, 5, encoded(dataclasses.replace(message, responses=(topic,))))
    assert b"10.0.0." not in hidden(raw, 1, 18, 65_536)


@pytest.mark.parametrize(
    ("api_key", "version", "body", "problem"),
    [
        (1, 18, bytes(10), "ends before"),
        (1, 18, bytes(10) + b"\x01\x01\x00\x05abc", ""),
        (1, 18, bytes(10) + b"\x01\x01\x00\x01abc", "do not end"),
        (1, 18, bytes(10) + b"\x01" + bytes((1 << 20) + 1), "1048577 bytes"),
        (1, 18, bytes(10) + b"\xff\xff\xff\xff\xff\xff", "varint"),
        (78, 2, bytes(6) + b"\x00" + bytes(4) + b"\x01\x09\x00", "8 elements in 2 bytes"),
    ],
)
def test_a_response_that_cannot_be_read_ends_the_connection(
    api_key: int, version: int, body: bytes, problem: str
) -> None:
    for step in (1, 1 << 30):
        with pytest.raises(ProtocolError, match=f"addresses in a response .*{problem}") as caught:
            hidden(response(api_key, version, 5, body), api_key, version, step)
        assert caught.value.reason == "broker_malformed"


@pytest.mark.slow
@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_damaged_responses_keep_their_size_or_end_the_connection(api_key: int, version: int) -> None:
    whole = bytearray(response(api_key, version, 5, encoded(made(api_key, version))))
    dice = random.Random(api_key * 100 + version)
    for _ in range(300):
        raw = whole.copy()
        for _ in range(dice.randint(1, 4)):
            raw[dice.randrange(8, len(raw))] = dice.randrange(256)
        with contextlib.suppress(ProtocolError):
            assert len(hidden(bytes(raw), api_key, version, dice.choice([100, 5_000, 1 << 30]))) == len(raw)


@pytest.mark.slow
def test_every_response_with_such_addresses_is_known() -> None:
    """Those of Produce are replaced, which is collected."""
    for api_key, api in PASSED.items():
        for version in range(api.min_version, api.max_version + 1):
            layout = response_layout(api_key, version)
            has_them = layout is not None and layout.has("node_endpoints")
            assert has_hidden_endpoints(api_key, version) == (has_them and api_key != PRODUCE)

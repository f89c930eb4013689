"""Addresses in responses, against kio's reader: every version, and nothing but the addresses changes."""

import dataclasses
import struct
from typing import Any

import pytest
from kio.serial import entity_reader
from support.gateway.gateway_traffic import Relay, encoded, produce, request, response, response_schema
from support.payloads.made_messages import Made

from fleetgauge.base.varint import encode_varint
from fleetgauge.gateway.apis import PASSED
from fleetgauge.gateway.responses.splices import has_addresses, read_text

NODES = ("1=gateway-one.example.com:19001", "*=g{id}:20000+id")
HOSTS = {1: ("gateway-one.example.com", 19001), 2: ("g2", 20002), 300: ("g300", 20300), -1: ("", -1)}
VERSIONS = [
    *((3, version) for version in range(14)),
    *((10, version) for version in range(7)),
    *((60, version) for version in range(3)),
    *((0, version) for version in range(10, 14)),
]


def mapped(value: Any) -> Any:
    """The same message with the addresses of the gateways."""
    if isinstance(value, tuple):
        return tuple(mapped(each) for each in value)
    if not dataclasses.is_dataclass(value):
        return value
    names = [field.name for field in dataclasses.fields(value)]
    changed = {name: mapped(getattr(value, name)) for name in names}
    if {"host", "port"} <= set(names):
        node = changed["node_id"] if "node_id" in changed else changed["broker_id"]
        changed["host"], changed["port"] = HOSTS[node]
    kind: Any = type(value)
    return kind(**changed)


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_every_address_is_replaced_and_nothing_else(api_key: int, version: int) -> None:
    kind = response_schema(api_key, version)
    message = Made(HOSTS).message(kind)
    relay = Relay(NODES)
    sent = produce(5, version=version) if api_key == 0 else request(api_key, version, 5, b"")
    raw = response(api_key, version, 5, encoded(message))
    relay.from_client(sent + sent)
    got = relay.from_broker(raw) + b"".join(relay.from_broker(raw[at : at + 1]) for at in range(len(raw)))
    half = len(got) // 2
    assert got[:half] == got[half:]
    (size,) = struct.unpack_from(">i", got)
    assert size == half - 4
    body = got[8 + (version >= PASSED[api_key].flexible_from) : half]
    read, end = entity_reader(kind)(body, 0)
    assert read == mapped(message)
    assert end == len(body)
    assert mapped(message) != message


def test_a_tagged_field_that_is_unknown_stays() -> None:
    relay = Relay(("*=g:1",))
    relay.from_client(request(3, 9, 5, b""))
    broker = struct.pack(">i", 1) + b"\x02b" + struct.pack(">i", 9092) + b"\x00" + b"\x01\x09\x02zz"
    raw = response(3, 9, 5, b"\0\0\0\0\x02" + broker + b"\x00" + struct.pack(">i", 1) + b"\x01\x01\x08\x01q")
    assert relay.from_broker(raw) == raw.replace(b"\x02b\x00\x00\x23\x84", b"\x02g\x00\x00\x00\x01")


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 1 << 21])
def test_a_varint_is_what_readers_read(value: int) -> None:
    raw = encode_varint(value + 1) + b"x" * value
    assert read_text(raw, 0, flexible=True) == (b"x" * value, len(raw))


def test_this_file_names_every_api_with_addresses() -> None:
    """Those of Fetch and the share APIs are hidden: `test_hidden_endpoints.py`."""
    passed = ((key, version) for key, api in PASSED.items() for version in range(api.max_version + 1))
    assert set(VERSIONS) == {api for api in passed if has_addresses(*api)}

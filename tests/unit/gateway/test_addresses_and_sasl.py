"""How `gateway.nodes` and `gateway.brokers` are read, and what a SASL token claims."""

import pytest

from fleetgauge.gateway.addresses import parse_brokers, parse_nodes
from fleetgauge.gateway.sasl import claimed_user


def test_no_entry_keeps_the_addresses_of_brokers() -> None:
    assert parse_nodes([]) is None


def test_an_empty_host_is_the_brokers_own() -> None:
    nodes = parse_nodes(["*=:19092"])
    assert nodes is not None
    assert nodes.of(3, "broker-3", 9092) == ("broker-3", 19092)


def test_an_ipv6_address_stands_in_brackets() -> None:
    nodes = parse_nodes(["1=[::1]:19092", "*=:1"])
    assert nodes is not None
    assert nodes.of(1, "b", 9092) == ("::1", 19092)


def test_a_port_per_node_ends_with_the_ports() -> None:
    nodes = parse_nodes(["*=g:65000+id"])
    assert nodes is not None
    assert nodes.of(10_000, "b", 9092) == ("g", 65535)


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        (["1=g:1"], "no entry for other nodes"),
        (["1=g:1", "1=h:1", "*=:1"], "occurs twice"),
        (["g:1"], "is not id=host:port"),
        (["1=g"], "is not id=host:port"),
        (["*=g:0"], "is not id=host:port"),
        (["*=g:70000"], "is not id=host:port"),
        (["-1=g:1"], "is not id=host:port"),
    ],
)
def test_entries_with_an_error_are_named(entries: list[str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_nodes(entries)


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        (["1=:9092"], "has no host for node 1"),
        (["1=b"], "is not id=host:port"),
        (["*=b:9000+id"], r"has \+id for node \*: name the port of each broker"),
    ],
)
def test_brokers_in_another_form_are_refused(entries: list[str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_brokers(entries)


def test_brokers_need_no_entry_for_other_nodes() -> None:
    brokers = parse_brokers(["1=b:9092"])
    assert brokers is not None
    assert (brokers.find(1), brokers.find(2)) == (("b", 9092), None)


@pytest.mark.parametrize(
    ("mechanism", "token"),
    [
        ("PLAIN", b""),
        ("PLAIN", b"no separator"),
        ("PLAIN", b"\0\xff\xfe\0p"),
        ("SCRAM-SHA-512", b"n,,r=x"),
        ("SCRAM-SHA-512", b"\xff"),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer nodots\x01\x01"),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer a.!!!.c\x01\x01"),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer a.W10.c\x01\x01"),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer a.eyJzdWIiOjF9.c\x01\x01"),
        ("GSSAPI", b"opaque"),
    ],
)
def test_a_token_that_names_no_user_claims_none(mechanism: str, token: bytes) -> None:
    assert claimed_user(mechanism, token) == ""

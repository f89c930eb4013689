"""Which broker a client means by a server name, and nodes that names do not tell apart."""

import pytest

from fleetgauge.gateway.addresses import parse_brokers, parse_nodes
from fleetgauge.gateway.server_names import ServerNames
from fleetgauge.wire.errors import ProtocolError

OTHERS = "*=kafka-{id}.example.com:9093"


def server_names(*nodes: str, brokers: str = "*=broker-{id}:9092") -> ServerNames:
    seen, behind = parse_nodes(nodes), parse_brokers([brokers])
    assert seen is not None
    assert behind is not None
    return ServerNames(seen, behind, ["Kafka.example.com", "0.0.0.0"])


@pytest.mark.parametrize(
    ("name", "broker"),
    [
        ("kafka-7.example.com", ("broker-7", 9092)),
        ("KAFKA-7.Example.Com", ("broker-7", 9092)),
        ("first.example.com", ("broker-1", 9092)),
        ("kafka-1.example.com", ("broker-1", 9092)),
        ("kafka.example.com", None),
        ("KAFKA.example.com", None),
    ],
)
def test_the_server_name_chooses_the_broker(name: str, broker: tuple[str, int] | None) -> None:
    assert server_names("1=First.example.com:9093", OTHERS).find(name) == broker


@pytest.mark.parametrize(
    "name",
    [
        "",
        "kafka-7.example.com.other.example",
        "a.kafka-7.example.com",
        "kafka-7xexample.com",
        "kafka-.example.com",
        "kafka--1.example.com",
        "kafka-12345678901.example.com",
        "kafka-7.example.com\n",
        "kafka-\u0667.example.com",
    ],
)
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        server_names(OTHERS).find(name)
    assert refused.value.reason == "unknown_server_name"


def test_a_node_without_a_broker_is_refused() -> None:
    names = server_names(OTHERS, brokers="1=broker-1:9092")
    assert names.find("kafka-1.example.com") == ("broker-1", 9092)
    with pytest.raises(ProtocolError) as refused:
        names.find("kafka-2.example.com")
    assert str(refused.value) == (
        "unknown_node: kafka-2.example.com is node 2, and gateway.brokers has no entry for it"
    )


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        (["*=kafka.example.com:19000+id"], "needs {id} in the host of other nodes"),
        (["*=:19092"], "needs {id} in the host of other nodes"),
        (["*={id}.{id}.example.com:9093"], "needs {id} in the host of other nodes"),
        (["1=:9093", OTHERS], "has ''"),
        (["1=10.0.0.1:9093", OTHERS], "has '10.0.0.1'"),
        (["1=[::1]:9093", OTHERS], "has '::1'"),
        (["1=kafka:9093", OTHERS], "has 'kafka'"),
        (["*=10.0.0.{id}:9093"], "has '10.0.0.0'"),
        (["1=b\u00fccher.example:9093", OTHERS], "clients send only server names with a dot"),
        (["1=a.b:9093", "2=A.b:9093", OTHERS], "has A.b for node 2, which is also another node's name"),
        (["1=kafka-2.example.com:9093", OTHERS], "has kafka-2.example.com for node 1, which is also another node's"),
    ],
)
def test_nodes_that_names_do_not_tell_apart_are_refused(nodes: list[str], problem: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011  # the text is looked for below, without its braces as a pattern
        server_names(*nodes)
    assert problem in str(refused.value)

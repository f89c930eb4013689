"""What ApiVersions, Metadata and DescribeCluster answer, read back with kio's own readers in every version."""

import struct
import uuid
from io import BytesIO
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from fleetgauge.base.clock import MockTime
from fleetgauge.node.authorizer.settings import AuthorizationSettings
from fleetgauge.node.listener.apis.api_versions import handle_api_versions
from fleetgauge.node.listener.apis.cluster import ClusterApis
from fleetgauge.node.listener.misdirected_clients import MisdirectedClients
from fleetgauge.node.state.authorization import Authorization
from fleetgauge.wire.api_table import SERVED, ApiKey, ApiTable
from fleetgauge.wire.messages.codec import Request, encode_response, parse_request

MISDIRECTED = MisdirectedClients(MockTime())
OPEN = Authorization(AuthorizationSettings(), MockTime())
CLUSTER = ClusterApis(7, "the-cluster", lambda listener: ("broker.example", 9092), OPEN, MISDIRECTED)


class Channel:
    listener_name = "PLAINTEXT"
    client_software_name = "unknown"
    client_software_version = "unknown"
    client_address = "10.1.2.3"


def asked(api_key: int, version: int, **fields: Any) -> Request:
    """A request that went through the wire: written by kio, read by ours."""
    schema: Any = load_request_schema(api_key, version)
    out = BytesIO()
    header: dict[str, Any] = {"request_api_key": api_key, "request_api_version": version, "correlation_id": 5}
    header_schema = schema.__header_schema__
    if header_schema.__version__ >= 1:
        header["client_id"] = "test"
    entity_writer(header_schema)(out, header_schema(**header))
    entity_writer(schema)(out, schema(**fields))
    return parse_request(out.getvalue(), ApiTable())


def answered(api_key: int, version: int, response: bytes) -> Any:
    """The response's message, read by kio; every byte has to be used."""
    schema: Any = load_response_schema(api_key, version)
    header, size = entity_reader(schema.__header_schema__)(response, 4)
    assert header.correlation_id == 5
    message, body = entity_reader(schema)(response, 4 + size)
    assert 4 + size + body == len(response) == 4 + int.from_bytes(response[:4], "big")
    return message


@pytest.mark.parametrize("version", range(5))
def test_api_versions_lists_what_is_served(version: int) -> None:
    fields = {} if version < 3 else {"client_software_name": "kgo", "client_software_version": "v1.22.2"}
    channel: Any = Channel()
    answer = answered(18, version, handle_api_versions(ApiTable(), channel, asked(18, version, **fields)))
    assert answer.error_code.value == 0
    assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == sorted(SERVED)
    assert channel.client_software_name == ("unknown" if version < 3 else "kgo")


def test_a_too_high_api_versions_version_is_answered_in_the_layout_of_version_0_with_error_35() -> None:
    channel: Any = Channel()
    request = Request(18, 99, 5, "test", None)
    answer = answered(18, 0, handle_api_versions(ApiTable(), channel, request))
    assert answer.error_code.value == 35
    assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == [(18, 0, 4)]


def test_a_software_name_outside_kafkas_pattern_is_an_invalid_request_and_not_kept() -> None:
    channel: Any = Channel()
    request = asked(18, 3, client_software_name="no spaces", client_software_version="1")
    answer = answered(18, 3, handle_api_versions(ApiTable(), channel, request))
    assert (answer.error_code.value, answer.api_keys) == (42, ())
    assert channel.client_software_name == "unknown"


def test_the_telemetry_apis_are_not_advertised_when_telemetry_is_off() -> None:
    channel: Any = Channel()
    table = ApiTable(telemetry_enabled=False)
    answer = answered(18, 0, handle_api_versions(table, channel, asked(18, 0)))
    assert {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}.isdisjoint(
        {api.api_key for api in answer.api_keys}
    )


def test_of_a_software_name_of_a_megabyte_only_the_beginning_is_kept_with_the_connection() -> None:
    channel: Any = Channel()
    request = asked(18, 3, client_software_name="a" * 1_000_000, client_software_version="1" * 1_000_000)
    answer = answered(18, 3, handle_api_versions(ApiTable(), channel, request))
    assert answer.error_code.value == 0
    assert channel.client_software_name == "a" * 4_096
    assert channel.client_software_version == "1" * 4_096


def metadata_request(version: int, names: list[str] | None) -> Request:
    module: Any = __import__(f"kio.schema.metadata.v{version}.request", fromlist=["x"])
    known = module.MetadataRequestTopic.__dataclass_fields__
    topics = None
    if names is not None:
        topics = tuple(
            module.MetadataRequestTopic(**{k: v for k, v in {"name": name, "topic_id": None}.items() if k in known})
            for name in names
        )
    fields = {
        "topics": topics,
        "allow_auto_topic_creation": True,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    in_version = module.MetadataRequest.__dataclass_fields__
    return asked(3, version, **{name: value for name, value in fields.items() if name in in_version})


@pytest.mark.parametrize("version", range(14))
def test_metadata_names_this_node_and_knows_no_topic(version: int) -> None:
    channel: Any = Channel()
    request = metadata_request(version, ["orders"])
    answer = answered(3, version, CLUSTER.handle_metadata(channel, request))
    assert [(broker.node_id, broker.host, broker.port) for broker in answer.brokers] == [(7, "broker.example", 9092)]
    assert [(topic.name, topic.error_code.value) for topic in answer.topics] == [("orders", 3)]
    if version >= 1:
        assert answer.controller_id == 7
    if version >= 2:
        assert answer.cluster_id == "the-cluster"


@pytest.mark.parametrize("version", [9, 12])
def test_a_client_that_asks_for_a_topic_is_noted_and_one_that_asks_for_brokers_is_not(version: int) -> None:
    channel: Any = Channel()
    before = MISDIRECTED.requests
    CLUSTER.handle_metadata(channel, metadata_request(version, []))
    CLUSTER.handle_metadata(channel, metadata_request(version, None))
    assert MISDIRECTED.requests == before
    CLUSTER.handle_metadata(channel, metadata_request(version, ["orders", "more"]))
    assert MISDIRECTED.requests == before + 1
    latest = MISDIRECTED.status()["latest_clients"][0]
    assert (latest["client_id"], latest["asked_for"]) == ("test", "Metadata of topic orders")


@pytest.mark.parametrize("version", range(14))
def test_metadata_of_many_topics_is_what_kio_writes(version: int) -> None:
    names = [f"topic-{number}" for number in range(200)] + ["", "\u00fc" * 60, "t" * 300]
    channel: Any = Channel()
    answer = answered(3, version, CLUSTER.handle_metadata(channel, metadata_request(version, names)))
    assert [topic.name for topic in answer.topics] == names
    written = encode_response(9, answer)
    assert CLUSTER.handle_metadata(channel, metadata_request(version, names))[8:] == written[8:]
    assert struct.unpack_from(">i", written) == (len(written) - 4,)


def metadata_by_id(version: int) -> Any:
    module: Any = __import__(f"kio.schema.metadata.v{version}.request", fromlist=["x"])
    topic = module.MetadataRequestTopic(name=None, topic_id=uuid.UUID(int=5))
    fields = {
        "topics": (topic,),
        "allow_auto_topic_creation": True,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    known = module.MetadataRequest.__dataclass_fields__
    request = asked(3, version, **{name: value for name, value in fields.items() if name in known})
    channel: Any = Channel()
    return answered(3, version, CLUSTER.handle_metadata(channel, request))


@pytest.mark.parametrize("version", [10, 11])
def test_a_topic_id_before_its_time_is_an_invalid_request_and_not_our_fault(version: int) -> None:
    answer = metadata_by_id(version)
    assert [(topic.name, topic.error_code.value) for topic in answer.topics] == [("", 42)]


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_asked_for_by_its_id_is_unknown_by_its_id(version: int) -> None:
    answer = metadata_by_id(version)
    assert [(topic.name, topic.topic_id, topic.error_code.value) for topic in answer.topics] == [
        (None, uuid.UUID(int=5), 100)
    ]


@pytest.mark.parametrize("version", range(1, 14))
def test_metadata_of_all_topics_is_empty(version: int) -> None:
    channel: Any = Channel()
    answer = answered(3, version, CLUSTER.handle_metadata(channel, metadata_request(version, None)))
    assert answer.topics == ()


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster_names_this_node(version: int) -> None:
    fields: dict[str, Any] = {"include_cluster_authorized_operations": False}
    if version >= 1:
        fields["endpoint_type"] = 1
    if version >= 2:
        fields["include_fenced_brokers"] = False
    channel: Any = Channel()
    answer = answered(60, version, CLUSTER.handle_describe_cluster(channel, asked(60, version, **fields)))
    assert (answer.error_code.value, answer.cluster_id, answer.controller_id) == (0, "the-cluster", 7)
    assert [broker.broker_id for broker in answer.brokers] == [7]


def test_a_controllers_endpoint_there_is_none() -> None:
    channel: Any = Channel()
    request = asked(60, 1, include_cluster_authorized_operations=False, endpoint_type=2)
    answer = answered(60, 1, CLUSTER.handle_describe_cluster(channel, request))
    assert (answer.error_code.value, answer.brokers) == (114, ())

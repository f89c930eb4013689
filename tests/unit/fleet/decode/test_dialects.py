import pytest

from fleetgauge.fleet.decode.dialects import identity_of
from fleetgauge.telemetry.catalogue.dialects import parse_node, twin_families


@pytest.mark.parametrize(
    ("text", "node_id", "coordinator"),
    [
        ("node-1", 1, False),
        ("node-0", 0, False),
        ("node-2147483646", 1, True),
        ("node-2147483647", 0, True),
        ("node-+1", 1, True),
        ("node--1", -1, False),
        ("node--3", -1, False),
        ("1001", 1001, False),
        ("-1", -1, False),
        ("-2147483648", -1, False),
        ("1073741823", 1073741823, False),
        ("1073741824", 1073741823, True),
    ],
)
def test_every_clients_name_of_a_link_is_read_as_node_and_coordinator(
    text: str, node_id: int, coordinator: bool
) -> None:
    assert parse_node(text) == (node_id, coordinator)


@pytest.mark.parametrize("text", ["", "node-", "node-a", "node-1 ", "1.0", "node-99999999999", "4294967296", "-", "+"])
def test_what_names_no_link_is_none(text: str) -> None:
    assert parse_node(text) is None


@pytest.mark.parametrize("key", ["node_id", "node.id"])
def test_the_node_is_found_under_either_key(key: str) -> None:
    assert identity_of({key: "7"}).node_id == 7


def test_a_point_without_a_node_has_neither_node_nor_coordinator() -> None:
    identity = identity_of({"topic": "t"})
    assert (identity.node_id, identity.coordinator, identity.topic) == (None, None, "t")


@pytest.mark.parametrize("key", ["member_id", "group_member_id"])
def test_librdkafkas_member_id_is_the_group_member_id(key: str) -> None:
    assert identity_of({key: "m-1", "group_id": "g"}).group_member_id == "m-1"


@pytest.mark.parametrize(("text", "partition"), [("0", 0), ("12", 12), ("-1", None), ("x", None), ("9999999999", None)])
def test_a_partition_is_a_number_or_nothing(text: str, partition: int | None) -> None:
    assert identity_of({"partition": text}).partition == partition


def test_a_dotted_topic_and_its_underscored_form_are_one_family() -> None:
    dotted, plain = twin_families([{"topic": "a.b", "partition": "0"}, {"topic": "a_b", "partition": "0"}, {}])
    assert dotted.keys() == {0}
    assert plain.keys() == {1}
    assert dotted[0] == plain[1]


def test_other_partitions_and_topics_without_an_original_are_no_family() -> None:
    sets = [{"topic": "a.b", "partition": "0"}, {"topic": "a_b", "partition": "1"}, {"topic": "c_d"}, {"topic": "e"}]
    assert twin_families(sets) == ({}, {})


def test_a_topic_with_dots_and_underscores_finds_its_twin() -> None:
    dotted, plain = twin_families([{"topic": "a.b_c.d"}, {"topic": "a_b_c_d"}])
    assert (dotted, plain) == ({0: 0}, {1: 0})

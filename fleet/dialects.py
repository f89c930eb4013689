"""How the clients' dialects of one thing are read as one: pure functions on the attributes of a data point.

Source: what real pushes of the Java client, librdkafka and franz-go hold. Attributes come as text, as `attributes`
and `resource` of a point keep them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

BOOTSTRAP_NODE_ID: Final = -1
"""Node id of every link that leads to no known broker: bootstrap servers (Java's `node--1`, `node--2`, ...; franz-go's
seeds) and librdkafka's bootstrap and logical brokers."""

_INT32_MAX: Final = 2**31 - 1
# Java numbers a coordinator's link 2^31-1-id. No cluster numbers its brokers from the upper half of int32.
_FIRST_COORDINATOR: Final = 2**30

_NODE: Final = re.compile(r"(?:node-)?(?P<coordinator>\+)?(?P<number>-?[0-9]{1,10})")
_NODE_KEYS: Final = ("node_id", "node.id")
_MEMBER_KEYS: Final = ("group_member_id", "member_id")

Attributes = Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What the attributes of a data point say of what it measures; None where they say nothing."""

    node_id: int | None = None
    coordinator: bool | None = None
    topic: str | None = None
    partition: int | None = None
    group_id: str | None = None
    group_member_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """What the resource of a payload says of the client that sent it (KIP-714, Client telemetry labels)."""

    client_rack: str | None = None
    group_id: str | None = None
    group_instance_id: str | None = None
    group_member_id: str | None = None
    transactional_id: str | None = None


def sender_of(resource: Attributes) -> Sender:
    """The sender that a resource with these attributes tells of.

    >>> sender_of({"group_id": "billing", "member_id": "m-1"}) == Sender(group_id="billing", group_member_id="m-1")
    True
    """
    return Sender(
        client_rack=resource.get("client_rack"),
        group_id=resource.get("group_id"),
        group_instance_id=resource.get("group_instance_id"),
        group_member_id=_first(resource, _MEMBER_KEYS),
        transactional_id=resource.get("transactional_id"),
    )


def parse_node(text: str) -> tuple[int, bool] | None:
    """Node id and whether the link is the one to a group's or transaction's coordinator; None for any other text.

    >>> parse_node("node-1"), parse_node("node-2147483646"), parse_node("node-+1"), parse_node("1")
    ((1, False), (1, True), (1, True), (1, False))
    >>> parse_node("node--2")
    (-1, False)
    """
    match = _NODE.fullmatch(text)
    if match is None:
        return None
    number = int(match["number"])
    if number < 0:
        return BOOTSTRAP_NODE_ID, False
    if number > _INT32_MAX:
        return None
    if number >= _FIRST_COORDINATOR:
        return _INT32_MAX - number, True
    return number, match["coordinator"] is not None


def identity_of(attributes: Attributes) -> Identity:
    """The normalised columns of a data point with these attributes.

    >>> identity_of({"node.id": "1001", "member_id": "m-1"}).group_member_id
    'm-1'
    """
    node = parse_node(_first(attributes, _NODE_KEYS) or "")
    return Identity(
        node_id=node[0] if node else None,
        coordinator=node[1] if node else None,
        topic=attributes.get("topic"),
        partition=_partition(attributes.get("partition")),
        group_id=attributes.get("group_id"),
        group_member_id=_first(attributes, _MEMBER_KEYS),
    )


def _first(attributes: Attributes, keys: Iterable[str]) -> str | None:
    return next((value for key in keys if (value := attributes.get(key)) is not None), None)


def _partition(text: str | None) -> int | None:
    if text is None or re.fullmatch(r"[0-9]{1,10}", text) is None:
        return None
    number = int(text)
    return number if number <= _INT32_MAX else None


def twin_families(attribute_sets: Iterable[Attributes]) -> tuple[dict[int, int], dict[int, int]]:
    """Which attribute sets are those of a dotted topic, and which are what an underscored twin of them would have.

    Java consumers from 4.x send the metrics of topic `a.b` twice, the second time with topic `a_b`. Two sets belong
    to one family when they are equal but for the topic and the topics are equal once `.` is `_`.

    Returns:
        Two maps from the index of a set to the number of its family: sets with a dotted topic, and sets with an
        undotted one. Only families that have both are named.
    """
    dotted: dict[int, frozenset[tuple[str, str | None]]] = {}
    plain: dict[int, frozenset[tuple[str, str | None]]] = {}
    for index, attributes in enumerate(attribute_sets):
        topic = attributes.get("topic")
        if topic is None or not ("." in topic or "_" in topic):
            continue
        family = frozenset((attributes | {"topic": topic.replace(".", "_")}).items())  # type: ignore[operator]
        (dotted if "." in topic else plain)[index] = family
    common = {family: number for number, family in enumerate(set(dotted.values()) & set(plain.values()))}
    return _numbered(dotted, common), _numbered(plain, common)


def _numbered(
    families: dict[int, frozenset[tuple[str, str | None]]], numbers: dict[frozenset[tuple[str, str | None]], int]
) -> dict[int, int]:
    return {index: numbers[family] for index, family in families.items() if family in numbers}

"""The normalised columns of a data point, out of its attributes in any client's dialect: pure functions.

What a node id, a group's member or a doubled topic is says `telemetry.catalogue.dialects`. Attributes come as text, as
`attributes` and `resource` of a point keep them.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fleetgauge.telemetry.catalogue.dialects import JAVA, MEMBER_KEYS, NODE_KEYS, Attributes, parse_node

CONSUMERS: Final = ("consumer", "share-consumer")
"""Roles whose clients belong to a group."""

_INT32_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Identity that the attributes of a data point give; None for what they do not state."""

    node_id: int | None = None
    coordinator: bool | None = None
    topic: str | None = None
    partition: int | None = None
    group_id: str | None = None
    group_member_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Labels of a client in the resource of its payload (KIP-714, Client telemetry labels), and its role by the names
    of its metrics (`ROLE_PREFIXES`).
    """

    client_rack: str | None = None
    group_id: str | None = None
    group_instance_id: str | None = None
    group_member_id: str | None = None
    transactional_id: str | None = None
    role: str | None = None


def says_when_it_ends(library: str | None, role: str | None, group_id: str | None) -> bool:
    """True if a client of this kind sends a terminating push when it is closed.

    KIP-714 asks every client for it. Java's producers send one only with records left to send, and its admin clients
    never do; its consumers, which alone have a group, always do. Of a Java client whose role is not known nothing can
    be concluded from its absence.

    >>> says_when_it_ends("java", "consumer", None), says_when_it_ends("java", "producer", None)
    (True, False)
    """
    return library != JAVA or role in CONSUMERS or group_id is not None


def sender_of(resource: Attributes) -> Sender:
    """The sender that a resource with these attributes describes.

    >>> sender_of({"group_id": "billing", "member_id": "m-1"}) == Sender(group_id="billing", group_member_id="m-1")
    True
    """
    return Sender(
        client_rack=resource.get("client_rack"),
        group_id=resource.get("group_id"),
        group_instance_id=resource.get("group_instance_id"),
        group_member_id=_first(resource, MEMBER_KEYS),
        transactional_id=resource.get("transactional_id"),
    )


def identity_of(attributes: Attributes) -> Identity:
    """The normalised columns of a data point with these attributes.

    >>> identity_of({"node.id": "1001", "member_id": "m-1"}).group_member_id
    'm-1'
    """
    node = parse_node(_first(attributes, NODE_KEYS) or "")
    return Identity(
        node_id=node[0] if node else None,
        coordinator=node[1] if node else None,
        topic=attributes.get("topic"),
        partition=_partition(attributes.get("partition")),
        group_id=attributes.get("group_id"),
        group_member_id=_first(attributes, MEMBER_KEYS),
    )


def _first(attributes: Attributes, keys: Iterable[str]) -> str | None:
    return next((value for key in keys if (value := attributes.get(key)) is not None), None)


def _partition(text: str | None) -> int | None:
    if text is None or re.fullmatch(r"[0-9]{1,10}", text) is None:
        return None
    number = int(text)
    return number if number <= _INT32_MAX else None

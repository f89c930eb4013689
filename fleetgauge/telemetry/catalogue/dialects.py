"""Normalises attributes that clients write differently: pure functions, standard library only.

Node ids, group members, duplicated topics, values as text. Source: recorded pushes of the Java client, librdkafka and
franz-go.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

BOOTSTRAP_NODE_ID: Final = -1
"""Node id of connections to no known broker: bootstrap servers (Java's `node--1`, `node--2`, ...; franz-go's
seeds) and librdkafka's bootstrap and logical brokers."""

NODE_KEYS: Final = ("node_id", "node.id")
"""Attribute with the broker of a connection: Java's and franz-go's, librdkafka's."""
MEMBER_KEYS: Final = ("group_member_id", "member_id")
"""Attribute with the member of a group: Java's and franz-go's, librdkafka's."""

_INT32_MAX: Final = 2**31 - 1
# Java numbers a coordinator's connection 2^31-1-id. No cluster uses broker ids in the upper half of int32.
_FIRST_COORDINATOR: Final = 2**30

_NODE: Final = re.compile(r"(?:node-)?(?P<coordinator>\+)?(?P<number>-?[0-9]{1,10})")

JAVA: Final = "java"
LIBRDKAFKA: Final = "librdkafka"
FRANZ_GO: Final = "franz-go"

SOFTWARE_OF_JAVA: Final = "apache-kafka-java"
SOFTWARE_OF_FRANZ_GO: Final = "kgo"
"""Its software's name, and the name of its scope."""
SOFTWARE_OF_LIBRDKAFKA: Final = r"rdkafka|^confluent-kafka-"
"""Found in the name; `rdkafka` in the version tells it too."""
SCOPE_OF_LIBRDKAFKA: Final = r"#(producer|consumer)-[0-9]+$"

Attributes = Mapping[str, str | None]


def library_of(
    software_name: str | None, software_version: str | None, scope_name: str | None = None
) -> Literal["java", "librdkafka", "franz-go"] | None:
    """`java`, `librdkafka`, `franz-go`, or None for another.

    The scope of a point tells it too, also where the name is not known: franz-go before 1.20 says none, and an
    application may give librdkafka any name.

    >>> library_of("confluent-kafka-python", "2.16.1-rdkafka-2.16.0"), library_of(None, None, "kgo")
    ('librdkafka', 'franz-go')
    """
    name, scope = software_name or "", scope_name or ""
    if scope == SOFTWARE_OF_FRANZ_GO:
        return FRANZ_GO
    if re.search(SCOPE_OF_LIBRDKAFKA, scope):
        return LIBRDKAFKA
    if name in (SOFTWARE_OF_JAVA, SOFTWARE_OF_FRANZ_GO):
        return JAVA if name == SOFTWARE_OF_JAVA else FRANZ_GO
    is_librdkafka = re.search(SOFTWARE_OF_LIBRDKAFKA, name) or "rdkafka" in (software_version or "")
    return LIBRDKAFKA if is_librdkafka else None


def parse_node(text: str) -> tuple[int, bool] | None:
    """Returns the node id, and whether the connection is to a group or transaction coordinator; None for other text.

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


def twin_families(attribute_sets: Iterable[Attributes]) -> tuple[dict[int, int], dict[int, int]]:
    """Finds attribute sets of a dotted topic, and those of its underscored twin.

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


def text_of(value: Any) -> str | None:
    """Returns an OTLP `AnyValue` as text: numbers in decimal, `true` or `false`, base64 for bytes,
    JSON for the nested ones; None without a value.
    """
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return str(value.string_value)
    if kind == "int_value":
        return str(value.int_value)
    plain = _plain(value)
    if plain is None or isinstance(plain, str):
        return plain
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    match kind:
        case "string_value" | "bool_value" | "int_value" | "double_value":
            return getattr(value, kind)
        case "bytes_value":
            return base64.b64encode(value.bytes_value).decode()
        case "array_value":
            return [_plain(item) for item in value.array_value.values]
        case "kvlist_value":
            return {pair.key: _plain(pair.value) for pair in value.kvlist_value.values}
        case _:
            return None

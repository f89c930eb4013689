"""Layouts of requests and responses, from `kio`'s schemas: where a field is, and the steps that pass over a body."""

import dataclasses
import enum
import functools
import itertools
import types
import typing
from typing import Any, Final, NamedTuple

from kio.index import KioIndexError, load_request_schema, load_response_schema
from kio.static.constants import EntityType

_FIXED_BYTES: Final = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "error_code": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "float64": 8,
    "uuid": 16,
}
_KEPT: Final = frozenset({"acks", "group_id", "member_epoch", "transactional_id"})
"""Fields of requests whose values are kept."""
_TOPIC_NAMES: Final = frozenset({"name", "topic"})
_NODE_IDS: Final = frozenset({"node_id", "broker_id"})
_ADDRESS: Final = frozenset({"host", "port"})
"""Fields that follow the node id in the address of a broker."""
_LED: Final = ("partition_index", "leader_id")
"""Fields of a partition in Metadata responses; the leader follows the index."""


class Op(enum.IntEnum):
    """Action of one step of a walk."""

    SKIP = 0
    """Passes over `size` bytes."""
    ERROR = 1
    """Counts an error code."""
    THROTTLE_TIME = 2
    """Records the offset of the throttle time."""
    NUMBER = 3
    """Keeps an integer of `size` bytes."""
    SIZED = 4
    """Passes over a string or bytes, with a length prefix of `size` bytes; 0 for a varint."""
    TEXT = 5
    """Keeps a string; prefix as in `SIZED`."""
    TOPIC_NAME = 6
    """Begins a topic by its name; prefix as in `SIZED`."""
    TOPIC_ID = 7
    """Begins a topic by its id; with a `name`, the id is of the topic that began before."""
    RECORDS = 8
    """Reads the headers of record batches; prefix as in `SIZED`."""
    ARRAY = 9
    """Repeats `steps`; prefix as in `SIZED`."""
    PARTITIONS = 10
    """Like ARRAY; also records the number of elements as that of the topic's partitions."""
    OPTIONAL = 11
    """A struct after a byte that is negative for null."""
    TAGS = 12
    """Passes over tagged fields."""
    ENDPOINTS = 13
    """Records the offset of the brokers' addresses, the last field of a response: a tagged field, with `steps` over its
    value, or an array before the tags.
    """
    ADDRESS = 14
    """Passes over node id, host and port of a broker; prefix of the host as in `SIZED`."""
    ADDRESSES_END = 15
    """Records that no address follows, except in a tagged field."""
    LEADER = 16
    """Reads index and leader of a partition, the first 8 of `size` bytes, if they are wanted."""


class Step(NamedTuple):
    """One step of a walk over a body.

    Attributes:
        op: what is done.
        size: see `Op`.
        name: of the field, for values that are kept.
        steps: of each element.
        element_bytes: of elements without anything to look at, all of one size; else 0.
    """

    op: Op
    size: int = 0
    name: str = ""
    steps: "tuple[Step, ...]" = ()
    element_bytes: int = 0


class Layout(NamedTuple):
    """The layout of one message in one version.

    Attributes:
        schema: `kio`'s class.
        from_header: steps over the whole body, after the tagged fields that end a flexible header.
    """

    schema: Any
    from_header: tuple[Step, ...]

    def offset_of(self, name: str) -> int | None:
        """Offset of a field of the body [B]; None if there is none, or one of variable length before it.

        >>> request_layout(1, 12).offset_of("max_bytes")
        12
        """
        offset = 0
        for field in dataclasses.fields(self.schema):
            if "tag" in field.metadata:
                continue
            if field.name == name:
                return offset
            size = _FIXED_BYTES.get(field.metadata.get("kafka_type", ""), 0)
            if not size or typing.get_origin(_without_none(field.type)[0]) is tuple:
                return None
            offset += size
        return None

    def has(self, name: str) -> bool:
        """True if the body has a field of that name."""
        return name in self.schema.__dataclass_fields__


@functools.cache
def request_layout(api_key: int, api_version: int) -> Layout | None:
    """The layout of a request; None if this version is not known."""
    return _layout(load_request_schema, api_key, api_version)


@functools.cache
def response_layout(api_key: int, api_version: int) -> Layout | None:
    """The layout of a response; None if this version is not known."""
    return _layout(load_response_schema, api_key, api_version)


def _layout(load: Any, api_key: int, api_version: int) -> Layout | None:
    try:
        schema = load(api_key, api_version)
    except KioIndexError:
        return None
    tags = (Step(Op.TAGS),) if schema.__header_schema__.__flexible__ else ()
    return Layout(schema, tags + _steps(schema))


@functools.cache
def _steps(entity: Any) -> tuple[Step, ...]:
    steps: list[Step] = []
    is_address = _is_address(entity)
    is_led = _LED in itertools.pairwise(entity.__dataclass_fields__)
    for field in dataclasses.fields(entity):
        is_tagged = "tag" in field.metadata
        if field.name == "node_endpoints":
            steps.append(Step(Op.ENDPOINTS, steps=(_step(entity, field),) if is_tagged else ()))
        if is_tagged or (is_address and field.name in _ADDRESS) or (is_led and field.name == _LED[1]):
            continue
        step = Step(Op.LEADER, 8) if is_led and field.name == _LED[0] else _step(entity, field)
        if steps and step.op is Op.SKIP and steps[-1].op in (Op.SKIP, Op.LEADER):
            steps[-1] = Step(steps[-1].op, steps[-1].size + step.size)
        else:
            steps.append(step)
        if _is_message(entity) and any(each.op is Op.ADDRESS for each in (step, *step.steps)):
            steps.append(Step(Op.ADDRESSES_END))
    if entity.__flexible__:
        steps.append(Step(Op.TAGS))
    return tuple(steps)


def _step(entity: Any, field: "dataclasses.Field[Any]") -> Step:
    annotation, is_nullable = _without_none(field.type)
    kind = field.metadata.get("kafka_type", "")
    if typing.get_origin(annotation) is tuple:
        return _array(entity, field, typing.get_args(annotation)[0], kind)
    if dataclasses.is_dataclass(annotation):
        steps = _steps(typing.cast(Any, annotation))
        return Step(Op.OPTIONAL, steps=steps) if is_nullable else Step(Op.ARRAY, size=-1, steps=steps)
    if field.name in _NODE_IDS and _is_address(entity):
        return Step(Op.ADDRESS, 0 if entity.__flexible__ else 2)
    if kind in _FIXED_BYTES:
        return _fixed(entity, field.name, kind)
    if kind == "records":
        return Step(Op.RECORDS, 0 if entity.__flexible__ else 4)
    is_text = kind == "string"
    prefix = 0 if entity.__flexible__ else 2 if is_text else 4
    if is_text and field.name in _TOPIC_NAMES and _is_topic(entity):
        return Step(Op.TOPIC_NAME, prefix)
    if is_text and field.name in _KEPT and _is_message(entity):
        return Step(Op.TEXT, prefix, field.name)
    return Step(Op.SIZED, prefix)


def _fixed(entity: Any, name: str, kind: str) -> Step:
    size = _FIXED_BYTES[kind]
    if kind == "error_code":
        return Step(Op.ERROR, size)
    if name == "throttle_time" and _is_message(entity):
        return Step(Op.THROTTLE_TIME, size)
    if name == "topic_id" and _is_topic(entity):
        is_named = not _TOPIC_NAMES.isdisjoint(entity.__dataclass_fields__)
        return Step(Op.TOPIC_ID, size, "of a named topic" if is_named else "")
    if name in _KEPT and _is_message(entity):
        return Step(Op.NUMBER, size, name)
    return Step(Op.SKIP, size)


def _array(entity: Any, field: "dataclasses.Field[Any]", element: Any, kind: str) -> Step:
    prefix = 0 if entity.__flexible__ else 4
    if dataclasses.is_dataclass(element):
        steps = _steps(typing.cast(Any, element))
    elif kind in _FIXED_BYTES:
        steps = (Step(Op.SKIP, _FIXED_BYTES[kind]),)
    else:
        steps = (Step(Op.SIZED, 0 if entity.__flexible__ else 2 if kind == "string" else 4),)
    is_plain = len(steps) == 1 and steps[0].op is Op.SKIP
    op = Op.PARTITIONS if field.name == "partitions" and _is_topic(entity) else Op.ARRAY
    return Step(op, prefix, steps=steps, element_bytes=steps[0].size if is_plain else 0)


def _is_topic(entity: Any) -> bool:
    """True for the structs of Produce, Fetch and Metadata that hold the partitions of one topic."""
    return "topic" in entity.__name__.lower() and not _is_message(entity)


def _is_address(entity: Any) -> bool:
    """True for a struct with the address of a broker."""
    names = entity.__dataclass_fields__.keys()
    return not _NODE_IDS.isdisjoint(names) and names >= _ADDRESS


def _is_message(entity: Any) -> bool:
    return entity.__type__ is not EntityType.nested


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if isinstance(annotation, types.UnionType):
        return next(each for each in typing.get_args(annotation) if each is not types.NoneType), True
    return annotation, False

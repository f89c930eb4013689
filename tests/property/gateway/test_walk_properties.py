"""A walk over any message, in pieces of any size, ends where the message does; over any bytes it ends."""

import dataclasses
import datetime
import io
from collections import Counter
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import Records, TZAware, i32Timedelta, i64Timedelta

from fleetgauge.gateway.messages.layout import request_layout, response_layout
from fleetgauge.gateway.messages.walk import COMPRESSIONS, Walk

_KINDS = {
    EntityType.request: (load_request_schema, request_layout),
    EntityType.response: (load_response_schema, response_layout),
}
_MESSAGES = [
    (kind, key, version)
    for key, name in api_key_map.items()
    for version, kinds in schema_name_map[name].items()
    for kind in kinds
    if kind in _KINDS
]

_milliseconds = st.integers(-(2**31), 2**31 - 1).map(lambda ms: datetime.timedelta(milliseconds=ms))
st.register_type_strategy(i32Timedelta, _milliseconds)
st.register_type_strategy(i64Timedelta, _milliseconds)
st.register_type_strategy(Records, st.binary(max_size=20))
st.register_type_strategy(
    TZAware,
    st.integers(0, 4_000_000_000_000).map(lambda ms: datetime.datetime.fromtimestamp(ms // 1000, datetime.UTC)),
)


def written(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def errors_in(value: Any) -> Iterator[int]:
    """Error codes outside of tagged fields, which a walk passes over."""
    if isinstance(value, ErrorCode):
        yield value.value
    elif isinstance(value, tuple):
        for each in value:
            yield from errors_in(each)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if "tag" not in field.metadata:
                yield from errors_in(getattr(value, field.name))


def pieces(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    for size in sizes:
        yield data[:size]
        data = data[size:]
    yield data


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(st.data())
def test_every_message_of_kafka_is_walked_to_its_end(data: st.DataObject) -> None:
    kind, key, version = data.draw(st.sampled_from(_MESSAGES))
    load, layout_of = _KINDS[kind]
    schema = load(key, version)
    message = data.draw(st.from_type(schema))
    content = b"\0" * schema.__header_schema__.__flexible__ + written(message)  # no tagged fields in the header
    layout = layout_of(key, version)
    assert layout is not None
    walk = Walk(layout.from_header)
    for piece in pieces(content, data.draw(st.lists(st.integers(0, 9), max_size=200))):
        walk.feed(piece)
    assert walk.problem == ""
    assert walk.is_done
    assert walk.position == len(content)
    assert walk.errors == Counter(code for code in errors_in(message) if code)


@settings(deadline=None)
@given(st.sampled_from(_MESSAGES), st.binary(max_size=300), st.lists(st.integers(0, 40), max_size=20), st.booleans())
def test_any_bytes_in_any_pieces_are_judged_alike_and_never_raise(
    message: tuple[Any, int, int], content: bytes, sizes: list[int], read_batches: bool
) -> None:
    kind, key, version = message
    layout = _KINDS[kind][1](key, version)
    assert layout is not None
    whole, cut = (Walk(layout.from_header, read_batches=read_batches) for _ in range(2))
    whole.feed(content)
    for piece in pieces(content, sizes):
        cut.feed(piece)
    for name in ("problem", "is_done", "values", "errors", "batches", "records", "record_bytes", "throttle_time_at"):
        assert getattr(whole, name) == getattr(cut, name), name
    assert sum(whole.compressions) <= whole.batches
    assert len(whole.compressions) == len(COMPRESSIONS)


def test_an_array_that_announces_more_than_a_walk_takes_ends_it() -> None:
    layout = response_layout(8, 7)
    assert layout is not None
    walk = Walk(layout.from_header)
    walk.feed(bytes(4) + (2**31 - 1).to_bytes(4, "big"))
    for _ in range(20):
        walk.feed(bytes(1 << 16))
    assert walk.problem == "too many fields"

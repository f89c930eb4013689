"""Whatever comes in whatever order: frames in pieces, readers equal to kio's, responses in order, mutes balanced."""

import datetime
import io
import itertools
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.schema.push_telemetry.v0 import PushTelemetryRequest
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import Records, i32Timedelta, i64Timedelta

from fleetgauge.wire.api_table import ADMIN_KEYS, SERVED, ApiTable
from fleetgauge.wire.channels.connection import Connection
from fleetgauge.wire.errors import LocalProtocolError, ProtocolError
from fleetgauge.wire.messages.codec import parse_request, read_admin_request
from fleetgauge.wire.messages.frames import FrameDecoder
from fleetgauge.wire.messages.push_telemetry import read_push_telemetry
from fleetgauge.wire.messages.request_reader import read_body

LIMIT = 200


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def written(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(bounds)]


def decoded(pieces: list[bytes]) -> tuple[list[bytes], str | None]:
    decoder = FrameDecoder(LIMIT)
    frames: list[bytes] = []
    for piece in pieces:
        try:
            frames += decoder.receive(piece)
        except ProtocolError:
            break
    return frames, decoder.error.reason if decoder.error else None


bodies = st.binary(min_size=8, max_size=LIMIT)
bad_sizes = st.one_of(st.integers(-(2**31), 7), st.integers(LIMIT + 1, 2**31 - 1))
cut_points = st.lists(st.integers(0, 2_000), max_size=30)


@settings(deadline=None)
@given(st.lists(bodies, max_size=8), cut_points, st.one_of(st.none(), bad_sizes), st.binary(max_size=20))
def test_what_comes_out_of_a_stream_does_not_depend_on_how_it_is_cut(
    sent: list[bytes], cuts: list[int], bad_size: int | None, trailing: bytes
) -> None:
    stream = b"".join(map(framed, sent))
    if bad_size is not None:
        stream += struct.pack(">i", bad_size) + trailing
    frames, reason = decoded(pieces_of(stream, cuts))
    assert frames == sent
    assert (reason is None) == (bad_size is None)
    assert decoded([stream]) == (frames, reason)


@settings(deadline=None)
@given(st.binary(max_size=400), cut_points)
def test_any_bytes_at_all_give_the_same_frames_and_the_same_error_in_any_pieces(data: bytes, cuts: list[int]) -> None:
    assert decoded(pieces_of(data, cuts)) == decoded([data])


pushes = st.builds(
    PushTelemetryRequest,
    client_instance_id=st.one_of(st.none(), st.uuids()),
    subscription_id=st.integers(-(2**31), 2**31 - 1),
    terminating=st.booleans(),
    compression_type=st.integers(-128, 127),
    metrics=st.binary(max_size=300),
)


@settings(deadline=None)
@given(pushes, st.binary(max_size=10), st.binary(max_size=10))
def test_the_fixed_shape_reader_of_a_push_equals_that_of_kio(push: Any, before: bytes, after: bytes) -> None:
    data = before + written(push) + after
    ours = read_push_telemetry(data, len(before))
    theirs, _ = entity_reader(PushTelemetryRequest)(data, len(before))
    assert ours._asdict() == {name: getattr(theirs, name) for name in ours._fields}


def request_versions() -> list[tuple[int, int]]:
    return [
        (key, version)
        for key, name in api_key_map.items()
        for version in schema_name_map[name]
        if EntityType.request in schema_name_map[name][version]
    ]


milliseconds = st.integers(-(2**31), 2**31 - 1).map(lambda ms: datetime.timedelta(milliseconds=ms))
st.register_type_strategy(i32Timedelta, milliseconds)
st.register_type_strategy(i64Timedelta, milliseconds)
st.register_type_strategy(Records, st.binary(max_size=20))


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(st.data())
def test_every_request_of_kafka_is_read_as_kio_reads_it(data: st.DataObject) -> None:
    schema = load_request_schema(*data.draw(st.sampled_from(request_versions())))
    message = data.draw(st.from_type(schema))
    content = written(message)
    assert read_body(schema, content, 0) == entity_reader(schema)(content, 0)[0]


def outcome_of(frame: bytes) -> str:
    try:
        request = parse_request(frame, ApiTable())
        if request.api_key in ADMIN_KEYS:
            read_admin_request(request)
    except ProtocolError as error:
        return error.reason
    return "read"


@settings(deadline=None)
@given(
    api=st.sampled_from(SERVED),
    version=st.integers(0, 14),
    client_id=st.one_of(st.none(), st.binary(max_size=12)),
    rest=st.binary(max_size=80),
)
def test_a_request_of_any_bytes_is_read_or_refused_with_a_reason(
    api: Any, version: int, client_id: bytes | None, rest: bytes
) -> None:
    length = -1 if client_id is None else len(client_id)
    frame = struct.pack(">hhih", api.key, version, 1, length) + (client_id or b"") + rest
    assert outcome_of(frame) in {"read", "unsupported_version", "malformed_header", "malformed_body"}


@settings(deadline=None)
@given(st.integers(1, 12).flatmap(lambda count: st.permutations(range(count))), st.integers(1, 12), st.data())
def test_responses_leave_in_the_order_of_requests_whatever_the_order_they_are_made_in(
    completion: list[int], max_in_flight: int, data: st.DataObject
) -> None:
    count = len(completion)
    stream = b"".join(framed(b"request-%02d" % number) for number in range(count))
    conn = Connection(max_frame_bytes=LIMIT, max_in_flight_requests=max_in_flight)
    for piece in pieces_of(stream, data.draw(cut_points)):
        conn.receive_data(piece)
    asked: list[bytes] = []
    open_slots: list[int] = []
    left = b""
    while len(left) < 10 * count:
        while (frame := conn.take()) is not None:
            asked.append(frame)
            open_slots.append(conn.open_slot())
            assert conn.in_flight <= max_in_flight
        slot = min(open_slots, key=completion.index)
        open_slots.remove(slot)
        conn.respond(slot, asked[slot])
        if data.draw(st.booleans()) or not open_slots:
            left += conn.data_to_send()
            assert b"".join(asked).startswith(left)
    assert left == b"".join(b"request-%02d" % number for number in range(count))


@settings(deadline=None)
@given(st.lists(st.sampled_from(["mute", "unmute", "chunk", "take", "drain", "close"]), max_size=40))
def test_frames_are_handed_out_exactly_while_every_mute_has_had_its_unmute(moves: list[str]) -> None:
    conn = Connection(max_frame_bytes=LIMIT, max_in_flight_requests=1_000)
    mutes, waiting, ended = 0, 0, False
    for move in moves:
        if move == "mute":
            conn.mute()
            mutes += 1
        elif move == "unmute" and mutes == 0:
            with pytest.raises(LocalProtocolError):
                conn.unmute()
        elif move == "unmute":
            mutes -= 1
            assert conn.unmute() == (mutes == 0 and not ended)
        elif move == "chunk":
            waiting = 0 if ended else waiting + conn.receive_data(framed(b"request-1") * 2)
        elif move == "take":
            may_take = mutes == 0 and waiting > 0 and not ended
            assert (conn.take() is not None) == may_take
            waiting -= may_take
        else:
            getattr(conn, move)()
            ended = True
        assert conn.is_muted == (mutes > 0)

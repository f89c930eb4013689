"""A conversation through the gateway is the same however its bytes arrive, and whenever its own answers are made."""

import itertools

from hypothesis import given
from hypothesis import strategies as st
from support.gateway.gateway_traffic import Relay, produce, request, response

FETCH, UNANSWERED, PUSH, METADATA = "fetch", "unanswered", "push", "metadata"


def _push(number: int) -> bytes:
    return request(72, 0, number, bytes(16) + b"\0\0\0\x05\0\0\x01\x00")


def _sent(kind: str, number: int, size: int) -> bytes:
    if kind == PUSH:
        return _push(number)
    if kind == UNANSWERED:
        return produce(number, 0, b"r" * size)
    return request(3 if kind == METADATA else 1, 9, number, b"b" * size)


def _answer(kind: str, number: int, size: int) -> tuple[bytes, bytes]:
    """What the broker says, and what the client gets."""
    if kind == FETCH:
        raw = response(1, 9, number, b"a" * size)
        return raw, raw
    host = b"\0\0\0\0\x02\0\0\0\x01%s\0\0\x23\x84\0\0" + b"t" * size
    return response(3, 9, number, host % b"\x07broker"), response(3, 9, number, host % b"\x03gw")


def _pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@given(
    kinds=st.lists(st.tuples(st.sampled_from([FETCH, UNANSWERED, PUSH, METADATA]), st.integers(0, 60)), max_size=12),
    request_cuts=st.lists(st.integers(0, 1 << 16), max_size=12),
    response_cuts=st.lists(st.integers(0, 1 << 16), max_size=12),
    made_after=st.lists(st.integers(0, 12), min_size=12, max_size=12),
)
def test_bytes_may_arrive_in_any_pieces(
    kinds: list[tuple[str, int]], request_cuts: list[int], response_cuts: list[int], made_after: list[int]
) -> None:
    relay = Relay(("*=gw:9092",))
    sent = [_sent(kind, number, size) for number, (kind, size) in enumerate(kinds)]
    passed = [frame for frame, (kind, _) in zip(sent, kinds, strict=True) if kind != PUSH]
    got = b"".join(relay.from_client(piece) for piece in _pieces(b"".join(sent), request_cuts))
    assert got == b"".join(passed)

    answers = [
        _answer(kind, number, size) if kind != PUSH else (b"", b"own-%d." % number)
        for number, (kind, size) in enumerate(kinds)
        if kind != UNANSWERED
    ]
    pieces = _pieces(b"".join(raw for raw, _ in answers), response_cuts)
    out = b""
    for step, piece in enumerate(pieces):
        for number, (in_flight, _) in enumerate(relay.served):
            if made_after[number] <= step:
                in_flight.local = b"own-%d." % in_flight.correlation_id
        out += relay.from_broker(piece)
    for in_flight, _ in relay.served:
        in_flight.local = b"own-%d." % in_flight.correlation_id
    out += relay.from_broker(b"")
    assert out == b"".join(answer for _, answer in answers)
    assert not relay.in_flight
    assert not relay.requests.is_cut
    assert not relay.responses.is_cut

"""A response is rewritten alike however its bytes arrive, wherever its turns end, and whatever rules need of it."""

import itertools
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.gateway.gateway_traffic import Relay, encoded, produce, request, response, response_schema
from support.payloads.made_messages import Made

from fleetgauge.gateway.apis import PASSED
from fleetgauge.gateway.in_flight import InFlight
from fleetgauge.gateway.responses.hidden_endpoints import has_hidden_endpoints
from fleetgauge.gateway.responses.splices import has_addresses
from fleetgauge.gateway.rules import WHOLE_FRAME, ClientConnection, NoRules, Patched, RequestVerdict
from fleetgauge.wire.errors import ProtocolError

NODES = ("1=gateway-one.example.com:19001", "*=g{id}:20000+id")
REWRITTEN = [
    (key, version)
    for key, api in PASSED.items()
    for version in range(api.min_version, api.max_version + 1)
    if has_addresses(key, version) or has_hidden_endpoints(key, version)
]


class _Patching(NoRules):
    """Rules that look at the beginning of responses, and change the first of its bytes."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted

    def request(self, connection: ClientConnection, request: InFlight, body: bytes, now_ns: int) -> RequestVerdict:
        request.response_bytes = self.wanted
        return None

    def response(
        self, connection: ClientConnection, request: InFlight, size: int, body: bytes, now_ns: int
    ) -> Patched | None:
        return Patched(b"\x01" + body[1:])


def passed(api: tuple[int, int], raw: bytes, edges: list[int], turns: list[bool], wanted: int) -> tuple[bytes, str]:
    """What a client gets, and why its connection ends."""
    ends = iter(turns)
    relay = Relay(NODES, rules=_Patching(wanted) if wanted else None, may_go_on=lambda: next(ends, True))
    relay.from_client(produce(1, version=api[1]) if api[0] == 0 else request(*api, 1, b""))
    got = b""
    try:
        for start, end in itertools.pairwise(sorted({0, *(edge % len(raw) for edge in edges), len(raw)})):
            got += relay.from_broker(raw[start:end])
            while relay.responses.turn_is_over:
                relay.responses.turn_is_over = False
                got += relay.from_broker(b"")
    except ProtocolError as error:
        return got, error.reason
    assert not relay.responses.is_cut
    assert relay.responses.kept_bytes == 0
    return got, ""


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(
    api=st.sampled_from(REWRITTEN),
    edges=st.lists(st.integers(0, 1 << 16), max_size=40),
    turns=st.lists(st.booleans(), max_size=60),
    wanted=st.sampled_from([0, 4, 16, 3_000, WHOLE_FRAME]),
)
def test_pieces_and_turns_make_no_difference(
    api: tuple[int, int], edges: list[int], turns: list[bool], wanted: int
) -> None:
    message: Any = Made([1, 2, 300, -1]).message(response_schema(*api))
    raw = response(*api, 1, encoded(message))
    assert passed(api, raw, edges, turns, wanted) == passed(api, raw, [], [], wanted)


@settings(deadline=None, max_examples=300)
@given(
    api=st.sampled_from(REWRITTEN),
    content=st.binary(min_size=1, max_size=200),
    edges=st.lists(st.integers(0, 1 << 8), max_size=10),
    turns=st.lists(st.booleans(), max_size=20),
    wanted=st.sampled_from([0, 4, WHOLE_FRAME]),
)
def test_any_bytes_end_alike(
    api: tuple[int, int], content: bytes, edges: list[int], turns: list[bool], wanted: int
) -> None:
    raw = response(*api, 1, content)
    whole, reason = passed(api, raw, [], [], wanted)
    assert passed(api, raw, edges, turns, wanted)[1] == reason
    if not reason:
        assert passed(api, raw, edges, turns, wanted)[0] == whole

"""Whatever a client or a broker sends under quotas: a reason to end the connection at most, and never another error."""

import struct
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from support.gateway.gateway_traffic import encoded, framed, request, response
from support.gateway.judged_relay import JudgedRelay

from fleetgauge.gateway.apis import PASSED
from fleetgauge.wire.errors import ProtocolError

_JUDGED = (0, 1, 3, 8, 11, 12, 19, 20, 37, 68, 78)
_VERSIONS = [
    (key, version) for key in _JUDGED for version in range(PASSED[key].min_version, PASSED[key].max_version + 1)
]


def under_all_quotas() -> JudgedRelay:
    relay = JudgedRelay()
    for manager in relay.managers.client_quota_managers:
        relay.limit(manager, 1e-9)
    return relay


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(_VERSIONS), st.binary(max_size=120), st.binary(max_size=120), st.integers(1, 60))
def test_any_bodies_end_a_connection_with_a_reason_at_most(
    api: tuple[int, int], asked: bytes, answered: bytes, chunk: int
) -> None:
    relay = under_all_quotas()
    reason = ""
    stream = request(*api, 1, asked) + request(*api, 2, asked)
    try:
        for at in range(0, len(stream), chunk):
            relay.from_client(stream[at : at + chunk])
        answers = response(*api, 1, answered) + framed(struct.pack(">i", 2) + answered)
        for at in range(0, len(answers), chunk):
            relay.from_broker(answers[at : at + chunk])
    except ProtocolError as error:
        reason = error.reason
    assert reason in {"", "malformed_request", "broker_malformed", "broker_unasked", "frame_too_large"}


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_any_request_to_create_or_delete_topics_is_judged(data: st.DataObject) -> None:
    key, version = data.draw(st.sampled_from([(19, 7), (19, 4), (20, 6), (20, 3), (37, 3), (37, 1)]))
    relay = under_all_quotas()
    message: Any = data.draw(st.from_type(load_request_schema(key, version)))
    answer: Any = data.draw(st.from_type(load_response_schema(key, version)))
    relay.from_client(request(key, version, 1, encoded(message)))
    if relay.in_flight and relay.in_flight[0].local is None:
        relay.from_broker(response(key, version, 1, encoded(answer)))
    else:
        relay.from_broker(b"")
    assert relay.in_flight == []

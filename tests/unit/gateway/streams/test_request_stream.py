"""The bytes from clients to the broker: what passes, what is answered here, what ends the connection."""

import struct

import pytest
from support.gateway.gateway_traffic import Relay, begin, exchange, framed, produce, request, response

from fleetgauge.gateway.in_flight import InFlight
from fleetgauge.gateway.rules import WHOLE_FRAME, Answer, ClientConnection, More, NoRules, RequestVerdict, Rewrite
from fleetgauge.wire.errors import ProtocolError

METADATA = request(3, 12, 7, b"\x00\x01\x00\x00")
PUSH = request(72, 0, 8, bytes(16) + struct.pack(">iBb", 5, 0, 0) + b"\x03ab\x00")


def byte_by_byte(relay: Relay, data: bytes) -> None:
    for at in range(len(data)):
        relay.from_client(data[at : at + 1])


def test_requests_pass_as_they_are() -> None:
    relay = Relay()
    data = METADATA + produce(1, records=b"r" * 500) + METADATA
    assert relay.from_client(data) == data
    assert [(each.api_key, each.correlation_id, each.client_id) for each in relay.in_flight] == [
        (3, 7, "client"),
        (0, 1, "client"),
        (3, 7, "client"),
    ]


def test_the_body_of_a_large_request_is_not_kept() -> None:
    relay = Relay()
    data = produce(1, records=b"r" * 500_000)
    assert len(relay.from_client(data[:1_000])) == 1_000
    assert relay.requests.kept_bytes == 0
    assert relay.requests.is_cut
    assert relay.from_client(data[1_000:]) == data[1_000:]
    assert not relay.requests.is_cut


@pytest.mark.parametrize("version", [2, 3, 8, 9, 13])
@pytest.mark.parametrize(("acks", "awaited"), [(0, 0), (1, 1), (-1, 1)])
def test_a_produce_without_acks_awaits_no_answer(version: int, acks: int, awaited: int) -> None:
    relay = Relay()
    relay.from_client(produce(1, acks, version=version))
    assert len(relay.in_flight) == awaited


def test_acks_are_found_behind_a_transactional_id_and_tagged_fields_of_the_header() -> None:
    relay = Relay()
    body = b"\x05txid" + struct.pack(">hi", 0, 1000)
    relay.from_client(request(0, 9, 1, body, tags=b"\x01\x07\x03abc"))
    assert not relay.in_flight


def test_a_null_client_id_is_an_empty_one() -> None:
    relay = Relay()
    relay.from_client(request(3, 12, 7, b"\x00", client_id=None))
    assert relay.in_flight[0].client_id == ""


def test_a_push_is_not_passed_but_served_in_its_place() -> None:
    relay = Relay()
    assert relay.from_client(METADATA + PUSH + METADATA) == METADATA + METADATA
    ((in_flight, frame),) = relay.served
    assert frame == PUSH[4:]
    assert in_flight is relay.in_flight[1]


def test_telemetry_passes_where_the_broker_answers_it() -> None:
    relay = Relay(answers_telemetry=False)
    assert relay.from_client(PUSH) == PUSH
    assert not relay.served


def test_a_push_that_is_too_large_ends_the_connection() -> None:
    with pytest.raises(ProtocolError, match="PushTelemetry v0 of"):
        Relay().from_client(request(72, 0, 8, bytes(20_000)))


def test_an_api_versions_request_of_an_unknown_version_is_answered_in_version_0() -> None:
    relay = Relay()
    assert relay.from_client(request(18, 5, 3, b"\x02a\x02b\x00")) == b""
    assert relay.from_broker(b"") == framed(struct.pack(">ihihhh", 3, 35, 1, 18, 0, 4))


def test_api_versions_names_the_software_of_the_client() -> None:
    relay = Relay()
    relay.from_client(request(18, 3, 1, b"\x05java\x064.4.0\x00"))
    assert (relay.client.client_software_name, relay.client.client_software_version) == ("java", "4.4.0")
    relay.from_client(request(18, 3, 1, b"\x03a\x1f\x02b\x00"))  # which the broker refuses
    assert relay.client.client_software_name == "java"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack(">i", -1) + b"x" * 20, "short_frame"),
        (struct.pack(">i", 5) + b"x" * 20, "short_frame"),
        (struct.pack(">i", 0), "short_frame"),
        (struct.pack(">i", 9), "short_frame"),
        (struct.pack(">i", (1 << 20) + 1), "frame_too_large"),
        (struct.pack(">i", 1 << 21) + b"x" * 20, "frame_too_large"),
        (b"GET / HTTP/1.1\r\n\r\n", "frame_too_large"),
        (request(4, 1, 1, b""), "unknown_api_key"),
        (request(1_000, 1, 1, b""), "unknown_api_key"),
        (request(-1, 1, 1, b""), "unknown_api_key"),
        (request(3, 99, 1, b""), "unsupported_version"),
        (request(3, -1, 1, b""), "unsupported_version"),
        (framed(struct.pack(">hhih", 3, 1, 1, 500) + b"abc"), "malformed_header"),
        (framed(struct.pack(">hhih", 0, 9, 1, 0)), "malformed_request"),
        (framed(struct.pack(">hhih", 0, 9, 1, 0) + b"\x00\x00"), "malformed_request"),
        (framed(struct.pack(">hhih", 0, 9, 1, 0) + b"\x00\x00") + METADATA, "malformed_request"),
        (framed(struct.pack(">hhih", 18, 3, 1, 0) + b"\x00\x7fjava"), "malformed_request"),
        (request(17, 0, 1, b"\x00\x05PLAIN"), "unsupported_version"),
        (request(18, 3, 1, bytes(70_000)), "frame_too_large"),
    ],
)
def test_a_stream_that_is_no_kafka_ends_whole_and_byte_by_byte(data: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError) as whole:
        Relay().from_client(data)
    assert whole.value.reason == reason
    with pytest.raises(ProtocolError) as piecewise:
        byte_by_byte(Relay(), data)
    assert piecewise.value.reason == reason


class _Whole(NoRules):
    """Rules that want the whole body."""

    def request(self, connection: ClientConnection, request: InFlight, body: bytes, now_ns: int) -> RequestVerdict:
        verdict = More(WHOLE_FRAME) if request.note is None else None
        request.note = "asked"
        return verdict


def test_a_header_that_would_end_in_the_next_request_ends_whole_and_byte_by_byte() -> None:
    data = request(37, 3, 1, b"", tags=b"") + METADATA
    for step in (1, len(data)):
        relay = Relay(rules=_Whole())
        with pytest.raises(ProtocolError, match="CreatePartitions v3 does not follow its schema"):
            b"".join(relay.from_client(data[at : at + step]) for at in range(0, len(data), step))


def test_a_sasl_token_may_be_as_large_as_at_a_broker() -> None:
    relay = Relay()
    relay.from_client(request(17, 1, 1, b"\x00\x06GSSAPI"))
    token = request(36, 1, 2, struct.pack(">i", 500_000) + bytes(500_000))
    assert relay.from_client(token) == token


def test_a_header_without_end_is_not_kept() -> None:
    endless = request(0, 9, 1, b"\x01\x01\xff\xff\xff\x7f" + bytes(900_000), tags=b"")
    relay = Relay()
    with pytest.raises(ProtocolError, match="the header takes more than"):
        relay.from_client(endless[:200_000])


def test_requests_before_a_malformed_one_have_passed() -> None:
    relay = Relay()
    with pytest.raises(ProtocolError):
        relay.from_client(METADATA + request(1_000, 1, 1, b""))
    assert len(relay.in_flight) == 1


@pytest.mark.parametrize("api_key", [4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82])
def test_requests_between_brokers_do_not_pass(api_key: int) -> None:
    relay = Relay()
    with pytest.raises(ProtocolError, match="does not pass the gateway"):
        relay.from_client(request(api_key, 0, 1, b""))


def test_no_more_requests_are_passed_than_may_be_in_flight() -> None:
    relay = Relay(max_in_flight=2)
    sent = [request(3, 12, number, b"\x00") for number in range(5)]
    assert relay.from_client(b"".join(sent)) == b"".join(sent[:2])
    assert relay.requests.is_held
    relay.from_broker(response(3, 12, 0, b"xx"))
    assert relay.from_client(b"") == sent[2]
    relay.from_broker(response(3, 12, 1, b"xx") + response(3, 12, 2, b"xx"))
    assert relay.from_client(b"") == sent[3] + sent[4]


class TestSasl:
    @pytest.mark.parametrize("version", [1, 2])
    def test_the_user_is_the_principal_once_the_broker_accepts_it(self, version: int) -> None:
        relay = Relay()
        begin(relay)
        exchange(relay, b"\0mallory\0wrong", version=version, error=58)
        assert relay.client.principal.name == "ANONYMOUS"
        begin(relay)
        exchange(relay, b"\0alice\0secret", version=version)
        assert relay.client.principal.name == "alice"

    def test_scram_ends_with_the_second_token(self) -> None:
        relay = Relay()
        begin(relay, b"SCRAM-SHA-256")
        exchange(relay, b"n,,n=bob,r=abc")
        assert relay.client.principal.name == "ANONYMOUS"
        exchange(relay, b"c=biws,r=abc,p=x")
        assert relay.client.principal.name == "bob"

    def test_telemetry_waits_for_the_brokers_consent_where_it_requires_sasl(self) -> None:
        relay = Relay(requires_sasl=True)
        with pytest.raises(ProtocolError, match="before a SASL exchange"):
            relay.from_client(PUSH)
        for error in (58, 0):
            relay = Relay(requires_sasl=True)
            begin(relay)
            exchange(relay, b"\0alice\0secret", error=error)
            if error:
                with pytest.raises(ProtocolError, match="before a SASL exchange"):
                    relay.from_client(PUSH)
            else:
                relay.from_client(PUSH)
                assert len(relay.served) == 1

    def test_the_subject_of_a_token_is_the_principal(self) -> None:
        relay = Relay()
        begin(relay, b"OAUTHBEARER")
        exchange(relay, b"n,,\x01auth=Bearer h.eyJzdWIiOiJzdmMifQ.s\x01\x01")
        assert relay.client.principal.name == "svc"


class _Scripted(NoRules):
    """Rules that give one verdict after the other."""

    def __init__(self, *verdicts: RequestVerdict) -> None:
        self.verdicts = list(verdicts)
        self.bodies: list[bytes] = []

    def request(self, connection: ClientConnection, request: InFlight, body: bytes, now_ns: int) -> RequestVerdict:
        self.bodies.append(body)
        return self.verdicts.pop(0) if self.verdicts else None


class _Muting(NoRules):
    """Rules that mute the connection at each request."""

    relay: Relay

    def request(self, connection: ClientConnection, request: InFlight, body: bytes, now_ns: int) -> RequestVerdict:
        self.relay.requests.mutes = 1
        return None


@pytest.mark.parametrize("step", [1, 3, 10_000])
class TestRules:
    def send(self, relay: Relay, data: bytes, step: int) -> bytes:
        return b"".join(relay.from_client(data[at : at + step]) for at in range(0, len(data), step))

    def test_they_get_the_bytes_that_they_want(self, step: int) -> None:
        rules = _Scripted(More(3), More(WHOLE_FRAME), None)
        relay = Relay(rules=rules)
        sent = request(3, 12, 7, b"abcdef")
        assert self.send(relay, sent + METADATA, step) == sent + METADATA
        assert rules.bodies == [b"", b"abc", b"abcdef", b""]

    def test_their_answer_takes_the_place_of_the_brokers(self, step: int) -> None:
        own = response(1, 15, 7, b"empty")
        relay = Relay(rules=_Scripted(None, Answer(own)))
        assert self.send(relay, METADATA + request(1, 15, 8, b"f" * 5_000) + METADATA, step) == METADATA + METADATA
        first = response(3, 12, 7, b"x")
        assert relay.from_broker(first + first) == first + own + first

    def test_they_may_rewrite_a_request(self, step: int) -> None:
        relay = Relay(rules=_Scripted(More(WHOLE_FRAME), Rewrite(b"other body")))
        assert (
            self.send(relay, request(3, 12, 7, b"abc") + METADATA, step) == request(3, 12, 7, b"other body") + METADATA
        )

    def test_a_mute_holds_the_next_request_of_the_same_bytes(self, step: int) -> None:
        rules = _Muting()
        rules.relay = relay = Relay(rules=rules)
        assert self.send(relay, METADATA + METADATA, step) == METADATA
        relay.requests.mutes = 0
        assert relay.from_client(b"") == METADATA

"""Random traces and odd frames to a real Kafka broker and a real node: the same answers, or a rule that says why not.

The rules are `support.differential.differences`; a difference that none explains fails with its trace, made small. So
does a rule that nothing met, since it may be out of date.
"""

import asyncio
import shutil
import struct
import uuid
from collections.abc import Iterator

import pytest
import uvloop
from support.clients.raw_client import (
    API_VERSIONS,
    GET_TELEMETRY,
    PUSH_TELEMETRY,
    RawClient,
    framed,
    get_request,
    header,
    parse_get,
    push_request,
    read_uvarint,
    uvarint,
)
from support.differential.campaign import CODES, Campaign, Outcome
from support.differential.differences import RULES
from support.differential.pair import GROUPS, SIDES, Content, Pair
from support.differential.traces import trace_with_edits, traces
from support.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("mvn") is None, reason="Maven is needed to get Apache Kafka and build the plugin"),
]

SEED = 714
LEAST_OF_EACH_CODE = 20
MOST_INCONCLUSIVE = 0.05
"""Share of traces whose times allowed no judgement, however often they were played."""

MOST_UNREPEATABLE = 0.005
"""Share of traces that failed once and then no more: the two sides notice the end of a connection at their own time."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with Pair(tmp_path_factory.mktemp("pair")) as pair:
        yield pair


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("wanted", "with_edits"),
    [
        pytest.param(300, 60, id="hundreds"),
        pytest.param(10_000, 400, id="soak", marks=[pytest.mark.soak, pytest.mark.timeout(5400)]),
    ],
)
def test_every_answer_is_kafkas_or_differs_by_a_rule(pair: Pair, wanted: int, with_edits: int) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        outcome = runner.run(campaign(pair, wanted, with_edits))
    print(outcome.table(), *outcome.unrepeatable, sep="\n")
    assert not outcome.failures, "\n\n".join(outcome.failures)
    for side in SIDES:
        rare = {name: outcome.answers[side][code] for code, name in CODES.items()}
        assert min(rare.values()) >= LEAST_OF_EACH_CODE, f"{side} gave too few of some codes: {rare}"
    never = [rule.name for rule in RULES if not outcome.fired[rule.name]]
    assert not never, f"these rules explained nothing: {never}"
    all_traces = wanted + with_edits
    assert len(outcome.inconclusive) <= MOST_INCONCLUSIVE * all_traces, "\n".join(outcome.inconclusive)
    assert len(outcome.unrepeatable) <= MOST_UNREPEATABLE * all_traces, "\n".join(outcome.unrepeatable)


async def campaign(pair: Pair, wanted: int, with_edits: int) -> Outcome:
    campaign = Campaign(pair)
    await campaign.run(traces(SEED, wanted))
    edited = next(group for group in GROUPS if group.name == "edited")
    await campaign.run_with_edits([trace_with_edits(SEED, index) for index in range(with_edits)], edited)
    return campaign.outcome


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5, 99])
def test_api_versions_announces_the_telemetry_apis_as_kafka_does(pair: Pair, version: int) -> None:
    kafka, ours = (announced(pair.ports[side], version) for side in SIDES)
    assert ours == kafka
    assert kafka == ((35, {API_VERSIONS: (0, 4)}) if version > 4 else (0, TELEMETRY))


TELEMETRY = {API_VERSIONS: (0, 4), GET_TELEMETRY: (0, 0), PUSH_TELEMETRY: (0, 0)}


def announced(port: int, version: int) -> tuple[int, dict[int, tuple[int, int]]]:
    """The error code, and of what is announced the APIs that matter here."""
    with RawClient(port) as client:
        body = client.api_versions(version)
    (error,) = struct.unpack_from(">h", body)
    flexible = version in (3, 4)
    if flexible:
        length, at = read_uvarint(body, 2)
        length -= 1
    else:
        (length,), at = struct.unpack_from(">i", body, 2), 6
    apis = {}
    for _ in range(length):
        key, *versions = struct.unpack_from(">hhh", body, at)
        apis[key] = (versions[0], versions[1])
        at += 6 + flexible
    return error, {key: apis[key] for key in TELEMETRY if key in apis}


def api_versions_request(name: str, version: str, tail: bytes = b"\0") -> bytes:
    names = b"".join(uvarint(len(text.encode()) + 1) + text.encode() for text in (name, version))
    return framed(header(API_VERSIONS, 3, 1, "odd") + names + tail)


def with_version(frame: bytes, version: int) -> bytes:
    return frame[:6] + struct.pack(">h", version) + frame[8:]


def with_tags_in_header(frame: bytes) -> bytes:
    """One tagged field that nobody knows (tag 9, three bytes) where the header has none."""
    client_id_bytes = max(0, struct.unpack_from(">h", frame, 12)[0])
    at = 14 + client_id_bytes
    assert frame[at] == 0
    return framed(frame[4:at] + b"\x01\x09\x03abc" + frame[at + 1 :])


def with_tags_in_body(frame: bytes) -> bytes:
    assert frame[-1] == 0
    return framed(frame[4:-1] + b"\x01\x09\x03abc")


def with_tail(frame: bytes) -> bytes:
    return framed(frame[4:] + b"tail")


def cut(frame: bytes, size: int) -> bytes:
    return framed(frame[4:-size])


INSTANCE = uuid.UUID("4e6fb54c-b8e6-4517-889b-e15b99c09c20")
GET = get_request(1, INSTANCE, "odd")
PUSH = push_request(1, INSTANCE, 5, b"", client_id="odd")  # under no subscription id that anybody has
BOOLEAN_AT = len(PUSH) - 1 - 1 - 1 - 1

FRAMES = {
    "a Get of version 1": with_version(GET, 1),
    "a push of version 1": with_version(PUSH, 1),
    "a Get of version -1": with_version(GET, -1),
    "a Get with unknown tagged fields in its header": with_tags_in_header(GET),
    "a Get with unknown tagged fields in its body": with_tags_in_body(GET),
    "a push with unknown tagged fields in its header": with_tags_in_header(PUSH),
    "a push with unknown tagged fields in its body": with_tags_in_body(PUSH),
    "a Get with bytes behind its body": with_tail(GET),
    "a push with bytes behind its body": with_tail(PUSH),
    "a Get that is cut off": cut(GET, 5),
    "a push that is cut off": cut(PUSH, 2),
    "a push without its last byte": cut(PUSH, 1),
    "a push that announces more metrics than it has": framed(PUSH[4:-2] + uvarint(1000) + b"abc"),
    "a push with a boolean of 2": PUSH[:BOOLEAN_AT] + b"\x02" + PUSH[BOOLEAN_AT + 1 :],
    "a Get without a client id": get_request(1, INSTANCE, None),
    "a push without a client id": push_request(1, INSTANCE, 5, b"", client_id=None),
    "a Get with an empty client id": get_request(1, INSTANCE, ""),
    "a Get with a client id of 32,767 bytes": get_request(1, INSTANCE, "x" * 32_767),
    "a Get with a client id that is not UTF-8": GET.replace(b"odd", b"\xff\xfeo"),
    "a Get with a client id of another alphabet": get_request(1, INSTANCE, "клиент"),
    "an API that nobody has": framed(header(999, 0, 1, "odd")),
    "a frame of no request": framed(b"no request at all"),
    "an empty frame": framed(b""),
    "a negative size": struct.pack(">i", -1),
    "a software name with spaces": api_versions_request("no spaces", "1"),
    "an empty software name": api_versions_request("", "1"),
    "a software version that begins with a dash": api_versions_request("name", "-1"),
    "an ApiVersions request that is cut off": api_versions_request("name", "1", b""),
}


@pytest.mark.parametrize("name", FRAMES)
def test_an_odd_frame_is_answered_as_kafka_answers_it(pair: Pair, name: str) -> None:
    of_its_own = uuid.uuid5(INSTANCE, name).bytes
    frame = FRAMES[name].replace(INSTANCE.bytes, of_its_own)
    kafka, ours = (answer_to(pair.ports[side], frame) for side in SIDES)
    print(name, kafka, sep=": ")
    assert ours == kafka


def answer_to(port: int, frame: bytes) -> object:
    """What comes back on a new connection: what a Get says, the bytes of another answer, or that it is closed."""
    with RawClient(port, timeout_s=PATIENCE_S) as client:
        client.send(frame)
        try:
            answer = client.receive_frame()
        except ConnectionError:
            return "closed"
    assert answer[:4] == struct.pack(">i", 1)
    if frame[4:6] == struct.pack(">h", GET_TELEMETRY):
        subscription = parse_get(answer[5:])
        return subscription.client_instance_id, subscription.error_code, Content.of(subscription)
    return answer[4:]

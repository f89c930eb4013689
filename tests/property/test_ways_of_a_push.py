"""However a trace's bytes arrive, and whichever form means the same, a node gives the same answers, rows and counters.

Each trace is played on two nodes: as clients usually send it (a frame a chunk, on open connections, without tagged
fields), and in another way: cut at random places, several frames in a chunk, tagged fields in header and body, with a
varint that is longer than it has to be, or with commits that wait for each other. What serves the usual push quickly
must do what serves all others.
"""

import struct
import uuid
from dataclasses import dataclass, field
from typing import Any

import zstandard
from golden.driver import GoldenNode
from golden.scenarios.pushes import tagged
from hypothesis import example, given, note, settings
from hypothesis import strategies as st
from support.clients.raw_client import NONE, ZSTD, framed, uvarint
from support.payloads.payloads import metrics_data

CONFIGS = {
    "plain": "",
    "own metrics": '"telemetry.client.instance.metrics.max" = 2\n',
    "fsync": '"push.log.flush" = "fsync"\n',
    "few instances": '"telemetry.client.instances.max" = 2\n',
    "few bytes": '"telemetry.max.byte.rate.per.ip" = 100\n"push.log.retention.bytes" = 1048576\n',
    "telemetry quota": '[quotas."clients/<default>"]\ntelemetry_push_rate = 2\n',
    "byte quota": '[quotas."clients/<default>"]\ntelemetry_byte_rate = 100\n',
    "request quota": '[quotas."clients/<default>"]\nrequest_percentage = 1\n',
}
SUBSCRIPTIONS = (
    '[client-metrics.all]\nmetrics = "*"\n"interval.ms" = 1000\n',
    '[client-metrics.all]\nmetrics = "org.apache"\n"interval.ms" = 500\n',
    '[client-metrics.all]\nmetrics = "*"\n"interval.ms" = 1000\nmatch = "client_id=a"\n',
)
IDS = tuple(uuid.UUID(int=number << 66 | 5) for number in range(1, 4))
GOOD = metrics_data(1)
PAYLOADS = {
    "good": (NONE, GOOD),
    "zstd": (ZSTD, zstandard.compress(GOOD)),
    "empty": (NONE, b""),
    "null": (NONE, None),
    "malformed": (NONE, b"\x0f"),
    "broken": (ZSTD, b"\x0f"),
    "unknown codec": (9, GOOD),
}
CLIENT_IDS = ("a", "b", None, "")
CONNECTIONS = ("x", "y", "z")
LINGER = '"push.log.append.linger.us" = 200\n'
TICK_MS = 40


@dataclass(frozen=True)
class Get:
    connection: str
    instance: int
    client_id: str | None


@dataclass(frozen=True)
class Push:
    connection: str
    instance: int
    client_id: str | None
    payload: str
    subscription_is_right: bool
    terminating: bool


@dataclass(frozen=True)
class Software:
    connection: str
    name: str


@dataclass(frozen=True)
class Wait:
    ms: int


@dataclass(frozen=True)
class Reconnect:
    connection: str
    at: str


@dataclass(frozen=True)
class Edit:
    subscription: int
    quota: str


def weighted(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """`usual` in most cases."""
    return st.sampled_from([usual] * 6 + list(others))


CONNECTION = st.sampled_from(CONNECTIONS)
INSTANCE = st.integers(0, len(IDS) - 1)
CLIENT_ID = weighted("a", *CLIENT_IDS)
PUSH = st.builds(
    Push,
    CONNECTION,
    INSTANCE,
    CLIENT_ID,
    weighted("good", *PAYLOADS),
    weighted(True, False),
    weighted(False, True),
)
GET = st.builds(Get, CONNECTION, INSTANCE, CLIENT_ID)
WAIT = st.builds(Wait, st.sampled_from((1, 499, 500, 999, 1000, 1001, 2000, 61_000)))
OTHER = st.one_of(
    st.builds(Reconnect, CONNECTION, st.sampled_from(("10.0.0.1", "10.0.0.2"))),
    st.builds(Software, CONNECTION, st.sampled_from(("apache-kafka-java", "kgo", "librdkafka"))),
    st.builds(Edit, st.integers(0, len(SUBSCRIPTIONS) - 1), st.sampled_from(sorted(CONFIGS))),
)
TRACE = st.lists(st.one_of(PUSH, PUSH, PUSH, GET, WAIT, WAIT, OTHER), min_size=8, max_size=25)


@dataclass
class Way:
    """How frames are written and how they arrive.

    Attributes:
        cut: sizes of the chunks; none is a chunk a frame.
        in_header, in_body: tagged fields.
        long_varint: the payload's length is written with a byte more than it needs.
        lingers: the node joins commits over a short time.
    """

    cut: list[int] = field(default_factory=list)
    in_header: bytes = b"\0"
    in_body: bytes = b"\0"
    long_varint: bool = False
    lingers: bool = False


TAGS = st.sampled_from((b"\0", tagged((0, b"x")), tagged((5, b""), (900, b"y" * 130))))
WAYS = st.builds(Way, st.lists(st.integers(1, 60), max_size=4), TAGS, TAGS, st.booleans(), st.booleans())


def header(api_key: int, correlation_id: int, client_id: str | None, way: Way, version: int = 0) -> bytes:
    name = b"\xff\xff" if client_id is None else struct.pack(">h", len(client_id)) + client_id.encode()
    return struct.pack(">hhi", api_key, version, correlation_id) + name + way.in_header


def get_frame(step: Get, correlation_id: int, way: Way) -> bytes:
    return framed(header(71, correlation_id, step.client_id, way) + IDS[step.instance].bytes + way.in_body)


def push_frame(step: Push, correlation_id: int, subscription_id: int, way: Way) -> bytes:
    compression_type, metrics = PAYLOADS[step.payload]
    length = b"\0" if metrics is None else uvarint(len(metrics) + 1)
    if way.long_varint:
        length = length[:-1] + bytes((length[-1] | 0x80, 0))
    body = IDS[step.instance].bytes + struct.pack(
        ">i?b", subscription_id ^ (not step.subscription_is_right), step.terminating, compression_type
    )
    return framed(header(72, correlation_id, step.client_id, way) + body + length + (metrics or b"") + way.in_body)


def software_frame(step: Software, correlation_id: int, way: Way) -> bytes:
    texts = uvarint(len(step.name) + 1) + step.name.encode() + b"\x021"
    return framed(header(18, correlation_id, "a", way, 3) + texts + way.in_body)


class Player:
    """Plays a trace in one way, and keeps what is seen."""

    def __init__(self, config: str, way: Way, tick_ms: int = TICK_MS) -> None:
        texts = (CONFIGS[config], SUBSCRIPTIONS[0]) if "quota" not in config else (SUBSCRIPTIONS[0], CONFIGS[config])
        self.node = GoldenNode(LINGER * way.lingers + "".join(texts))
        self.way = way
        self.subscription_ids: dict[int, int] = {}
        self.seen: list[dict[str, Any]] = []
        self.perform({"do": "tick", "ms": tick_ms})
        for name in CONNECTIONS:
            self.perform({"do": "connect", "name": name, "port": 50_000})
        for number in range(len(IDS)):
            self._do(1_000 + number, Get("x", number, "a"))

    def perform(self, step: dict[str, Any]) -> dict[str, Any]:
        found = self.node.perform(step)
        status = found.get("status", {})
        for path in list(status):
            # The only figures that tagged fields and long varints change.
            if path.endswith(("bytes_received", "unfinished_request_bytes")):
                del status[path]
        self.seen.append(found)
        return found

    def play(self, steps: list[Any]) -> list[dict[str, Any]]:
        for number, step in enumerate(steps, 1):
            self._do(number, step)
        self.perform({"do": "advance", "ms": 30_000})
        self.perform({"do": "metrics"})
        self.perform({"do": "stop"})
        return self.seen

    def _do(self, number: int, step: Any) -> None:
        if isinstance(step, Get):
            found = self._send(step.connection, get_frame(step, number, self.way))
            for line in found.get("answers", {}).get(step.connection, ()):
                answer = bytes.fromhex(line.rpartition(" ")[2])
                if struct.unpack_from(">i", answer) == (number,) and answer[9:11] == b"\0\0":
                    (self.subscription_ids[step.instance],) = struct.unpack_from(">i", answer, 27)
        elif isinstance(step, Push):
            subscription_id = self.subscription_ids.get(step.instance, 0)
            self._send(step.connection, push_frame(step, number, subscription_id, self.way))
        elif isinstance(step, Software):
            self._send(step.connection, software_frame(step, number, self.way))
        elif isinstance(step, Wait):
            self.perform({"do": "advance", "ms": step.ms})
        elif isinstance(step, Reconnect):
            self.perform({"do": "reset", "of": step.connection})
            self.perform({"do": "connect", "name": step.connection, "at": step.at})
        else:
            extra = CONFIGS[step.quota] if "quota" in step.quota else ""
            self.perform({"do": "reconfigure", "config": (SUBSCRIPTIONS[step.subscription] + extra).splitlines()})

    def _send(self, to: str, data: bytes) -> dict[str, Any]:
        return self.perform({"do": "send", "to": to, "data": data.hex(), "cut": self.way.cut})


def played(config: str, way: Way, tick_ms: int, steps: list[Any]) -> list[dict[str, Any]]:
    player = Player(config, way, tick_ms)
    try:
        return player.play(steps)
    finally:
        player.node.close()


@settings(max_examples=40)
@given(config=st.sampled_from(sorted(CONFIGS)), way=WAYS, steps=TRACE)
def test_every_way_of_the_same_trace_gives_the_same(config: str, way: Way, steps: list[Any]) -> None:
    tick_ms = 0 if way.lingers else TICK_MS  # where each reading of the clock is later, no commit has to wait
    usual, other = (played(config, each, tick_ms, steps) for each in (Way(), way))
    for position, (one, two) in enumerate(zip(usual, other, strict=True)):
        note(f"step {position}")
        assert two == one


BURST = st.lists(st.one_of(PUSH, PUSH, GET), min_size=2, max_size=8)


# Not with a request quota, which holds the channel, and not with fsync, where a batch may wait for the one before it.
# Not with few instances either: one that makes room before its push is in the log is not listed as vanished.
AT_ONCE = sorted(set(CONFIGS) - {"request quota", "fsync", "few instances"})


@settings(max_examples=30)
@given(config=st.sampled_from(AT_ONCE), steps=BURST)
@example(
    config="plain",
    steps=[Push("x", 0, "a", "good", False, False), Push("x", 0, "a", "good", True, False), Get("x", 0, "a")],
)
def test_frames_in_one_chunk_are_answered_as_one_by_one(config: str, steps: list[Any]) -> None:
    """At one moment; all but how many commits that took is the same.

    Not where instances are evicted: one that goes before its push is in the log has not pushed yet.
    """
    ends = []
    for chunks in (False, True):
        player = Player(config, Way())
        try:
            frames = [
                get_frame(step, number, player.way)
                if isinstance(step, Get)
                else push_frame(step, number, player.subscription_ids.get(step.instance, 0), player.way)
                for number, step in enumerate(steps, 1)
            ]
            for data in [b"".join(frames)] if chunks else frames:
                player._send("x", data)
            ends.append(_summary(player))
        finally:
            player.node.close()
    assert ends[0] == ends[1]


def _summary(player: Player) -> dict[str, Any]:
    """All that was seen, whatever the step; without the number of commits."""
    status = player.node.status()
    del status["push_log.commits"]
    return {
        "answers": [line for seen in player.seen for line in seen.get("answers", {}).get("x", ())],
        "rows": [row for seen in player.seen for row in seen.get("rows", ())],
        "status": status,
    }

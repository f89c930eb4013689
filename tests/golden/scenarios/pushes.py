"""Pushes and Gets as clients send them, good and bad: one connection, one client."""

import gzip
import struct
import uuid

import lz4.frame
import snappy
import zstandard
from golden.scenarios.scenario import EVERY_SECOND, REFUSING, SMALL, scenario
from golden.session import Session
from support.clients.raw_client import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    Subscription,
    framed,
    header,
    push_request,
    uvarint,
)
from support.payloads.payloads import metrics_data
from support.payloads.real_pushes import DIRECTORY as REAL


def xerial(data: bytes) -> bytes:
    """As snappy-java's SnappyOutputStream writes, which the Java client uses."""
    block: bytes = snappy.compress(data)
    return b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block


CODECS = {
    "none": (NONE, bytes),
    "gzip": (GZIP, lambda data: gzip.compress(data, mtime=0)),
    "snappy": (SNAPPY, snappy.compress),
    "snappy as Java writes it": (SNAPPY, xerial),
    "lz4": (LZ4, lz4.frame.compress),
    "zstd": (ZSTD, zstandard.compress),
}
SMALL_BOUNDS = EVERY_SECOND.replace(
    "[client", '"telemetry.max.bytes" = 1500\n"telemetry.max.decompressed.bytes" = 4000\n[client', 1
)


def begin(session: Session, name: str = "a", **arguments: object) -> Subscription:
    """A connection whose client has said its software and has its subscription."""
    session.connect(name)
    session.send(name, session.versions_frame())
    return session.get(name, **arguments)  # type: ignore[arg-type]


@scenario()
def usual_life(session: Session) -> None:
    """A client connects, asks, pushes at its interval, says goodbye and leaves; long after, nothing is left of it."""
    subscription = begin(session)
    session.advance(700)
    session.push("a", subscription, zstandard.compress(SMALL), compression_type=ZSTD)
    for count in range(2, 5):
        session.advance(1000)
        session.push("a", subscription, zstandard.compress(metrics_data(count)), compression_type=ZSTD)
    session.advance(300)
    session.push("a", subscription, zstandard.compress(SMALL), "goodbye", compression_type=ZSTD, terminating=True)
    session.do("end_input", of="a")
    session.do("disk")
    session.advance(700_000)


def _real(session: Session, software: tuple[str, str], file: str, codecs: tuple[str, ...]) -> None:
    session.connect("a")
    session.send("a", session.versions_frame(*software))
    subscription = session.get("a")
    for codec in codecs:
        compression_type, compress = CODECS[codec]
        data = compress((REAL / file).read_bytes())
        session.push("a", subscription, data, codec, compression_type=compression_type)
        session.advance(1000)
    session.push("a", subscription, b"", "goodbye", terminating=True)


@scenario()
def payload_of_a_java_producer(session: Session) -> None:
    """What a Java producer 4.1.1 pushed, under every codec."""
    _real(session, ("apache-kafka-java", "4.1.1"), "java-4.1.1-producer.otlp", tuple(CODECS))


@scenario()
def payload_of_a_librdkafka_consumer(session: Session) -> None:
    """What a consumer of librdkafka 2.16.0 pushed, under every codec."""
    _real(
        session, ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0"), "librdkafka-2.16.0-consumer.otlp", tuple(CODECS)
    )


@scenario()
def payload_of_a_librdkafka_producer(session: Session) -> None:
    """What a producer of librdkafka 2.16.0 pushed."""
    _real(session, ("librdkafka", "2.16.0"), "librdkafka-2.16.0-producer.otlp", ("zstd", "none"))


@scenario()
def heartbeats(session: Session) -> None:
    """Empty payloads: of no bytes, compressed, NULL."""
    subscription = begin(session)
    for codec, (compression_type, compress) in CODECS.items():
        session.push("a", subscription, compress(b""), f"empty, {codec}", compression_type=compression_type)
        session.advance(1000)
        session.push("a", subscription, b"", f"no bytes, {codec}", compression_type=compression_type)
        session.advance(1000)
    session.push("a", subscription, None, "NULL")
    session.advance(1000)
    session.push("a", subscription, None, "NULL under zstd", compression_type=ZSTD)
    session.advance(1000)
    session.push("a", subscription, None, "NULL, terminating", terminating=True)


@scenario()
def unknown_codecs(session: Session) -> None:
    """Compression types that are not announced, or do not exist: refused, and a Get is due at once."""
    subscription = begin(session)
    for number in (5, 100, 127, -1, -128):
        session.push("a", subscription, SMALL, f"compression type {number}", compression_type=number)
        session.push("a", subscription, SMALL, "too early now", compression_type=number)
        subscription = session.get("a", subscription.client_instance_id)


@scenario('"telemetry.compression.types" = "gzip"\n' + EVERY_SECOND)
def codec_that_the_operator_left_out(session: Session) -> None:
    """Only gzip is announced: zstd is refused, none is always taken."""
    subscription = begin(session)
    session.push("a", subscription, zstandard.compress(SMALL), compression_type=ZSTD)
    subscription = session.get("a", subscription.client_instance_id)
    session.push("a", subscription, gzip.compress(SMALL, mtime=0), compression_type=GZIP)
    session.advance(1000)
    session.push("a", subscription, SMALL)


@scenario()
def broken_compression(session: Session) -> None:
    """Compressed payloads that are cut, garbage, or followed by more, under each codec."""
    subscription = begin(session)
    for codec, (compression_type, compress) in CODECS.items():
        if codec == "none":
            continue
        whole = compress(metrics_data(3))
        for what, data in (
            ("cut", whole[: len(whole) // 2]), ("garbage", b"garbage" * 9), ("and more", whole + b"more"),
            ("twice", whole + whole),
        ):  # fmt: skip
            session.push("a", subscription, data, f"{codec}, {what}", compression_type=compression_type)
            session.advance(1000)


@scenario()
def malformed_otlp(session: Session) -> None:
    """Payloads that are no MetricsData: accepted and logged as they came, counted, and shown of the client."""
    _malformed_payloads(session)
    session.do("clients")


@scenario(REFUSING + EVERY_SECOND)
def malformed_otlp_refused(session: Session) -> None:
    """Payloads that are no MetricsData where they are refused: for good, and the interval counts."""
    _malformed_payloads(session)


def _malformed_payloads(session: Session) -> None:
    subscription = begin(session)
    for data in (
        SMALL[:-3],
        b"\x0f" + SMALL,
        b"this is no protobuf",
        b"\x0a\x0c\x12\x0a\x12\x08\x0a\x02\xff\xfe\x12\x02ab",
    ):
        session.push("a", subscription, data)
        session.push("a", subscription, SMALL, "too early now")
        session.advance(1000)
        session.push("a", subscription, zstandard.compress(data), "compressed", compression_type=ZSTD)
        session.advance(1000)
    session.push("a", subscription, b"\x82\x01\x01x", "a field that OTLP does not have")
    session.advance(1000)
    session.push("a", subscription, SMALL)


@scenario(SMALL_BOUNDS)
def too_large(session: Session) -> None:
    """Payloads at and beyond telemetry.max.bytes and telemetry.max.decompressed.bytes, and one that inflates."""
    subscription = begin(session)
    for size in (1500, 1501, 4000):
        data = b"\xa2\x06" + uvarint(size - 4) + bytes(size - 4)
        session.push("a", subscription, data, f"{len(data)} B")
        session.push("a", subscription, SMALL, "at once")
        session.advance(1000)
    for size in (4000, 4001, 100_000, 3_000_000):
        data = b"\xa2\x06" + uvarint(size - 2 - len(uvarint(size - 4)))
        data += bytes(size - len(data))
        for codec in ("gzip", "zstd", "lz4", "snappy as Java writes it"):
            compression_type, compress = CODECS[codec]
            sent = compress(data)
            note = f"{len(data)} B as {len(sent)} B of {codec}"
            if len(sent) < 20_000:
                session.push("a", subscription, sent, note, compression_type=compression_type)
                session.advance(1000)


@scenario()
def inflating(session: Session) -> None:
    """Payloads of a few MiB that were compressed more than a hundredfold."""
    subscription = begin(session)
    for size in (1 << 20, (1 << 20) + 8, 3 << 20):
        data = b"\xa2\x06" + uvarint(size - 2 - len(uvarint(size - 6)))
        data += bytes(size - len(data))
        for codec in ("gzip", "zstd"):
            compression_type, compress = CODECS[codec]
            session.push("a", subscription, compress(data), f"{size} B, {codec}", compression_type=compression_type)
            session.advance(1000)


@scenario()
def unknown_subscription(session: Session) -> None:
    """A wrong subscription id costs an interval, and a Get is due at once; the push after that is due too."""
    subscription = begin(session)
    wrong = subscription.subscription_id ^ 1
    session.push("a", subscription, SMALL, subscription_id=wrong)
    session.push("a", subscription, SMALL, "too early")
    session.get("a", subscription.client_instance_id)
    session.push("a", subscription, SMALL)
    session.advance(1000)
    session.push("a", subscription, SMALL, subscription_id=wrong)
    session.push("a", subscription, SMALL, subscription_id=wrong, terminating=True)
    session.advance(1000)
    session.push("a", subscription, SMALL, subscription_id=0)


@scenario()
def too_early(session: Session) -> None:
    """Gets and pushes a millisecond before they are due, and when they are."""
    subscription = begin(session)
    session.get("a", subscription.client_instance_id, "at once again")
    session.push("a", subscription, SMALL, "the first push is due at once")
    session.push("a", subscription, SMALL, "at once again")
    session.advance(999)
    session.push("a", subscription, SMALL, "1 ms early")
    session.get("a", subscription.client_instance_id, "1 ms early")
    session.advance(1)
    session.push("a", subscription, SMALL, "due")
    session.get("a", subscription.client_instance_id, "right after a push")
    session.advance(999.999)
    session.push("a", subscription, SMALL, "1 us early")
    session.advance(0.001)
    session.get("a", subscription.client_instance_id, "due")
    session.push("a", subscription, SMALL, "due after a Get")
    session.get("a", subscription.client_instance_id)


@scenario()
def after_terminating(session: Session) -> None:
    """Nothing is taken on a connection after its terminating push; on another one it is."""
    subscription = begin(session)
    session.push("a", subscription, SMALL)
    session.push("a", subscription, SMALL, "early, but the last one", terminating=True)
    session.push("a", subscription, SMALL, "and another")
    session.push("a", subscription, SMALL, "and a last one", terminating=True)
    session.get("a", subscription.client_instance_id)
    session.advance(1000)
    session.push("a", subscription, SMALL)
    session.get("a", subscription.client_instance_id)
    session.connect("b")
    session.push("b", subscription, SMALL, "too early or due?")
    session.advance(1000)
    session.push("b", subscription, SMALL)


@scenario(REFUSING + EVERY_SECOND)
def terminating_that_is_refused(session: Session) -> None:
    """A terminating push that is refused does not end the client."""
    subscription = begin(session)
    session.push("a", subscription, b"\x0f", "malformed", terminating=True)
    session.push("a", subscription, SMALL, "again", terminating=True)
    session.push("a", subscription, SMALL, "over")


@scenario()
def instance_ids(session: Session) -> None:
    """Null, reserved and made-up instance ids, in Gets and pushes."""
    session.connect("a")
    for number in (0, 1, 2, 1 << 127):
        given = session.get("a", uuid.UUID(int=number), f"Get with id {number}")
        session.push("a", given, SMALL, "with the id of the answer")
        session.push("a", given, SMALL, f"with id {number}", instance_id=uuid.UUID(int=number))
    session.get("a", None, "null again: the id that is known on the connection")
    session.connect("b")
    session.push("b", given, SMALL, "of a client that never asked", instance_id=uuid.UUID(int=77 << 64))
    session.push("b", given, SMALL, "null", instance_id=None, subscription_id=0)
    session.push("b", given, SMALL, "null, terminating", instance_id=None, terminating=True)


@scenario()
def client_ids(session: Session) -> None:
    """Client ids: null, empty, long, in other alphabets, not UTF-8."""
    for number, client_id in enumerate((None, "", "x" * 1500, "Zürich-消費者-🚀", "tab\tand\nline")):
        session.connect(f"c{number}")
        subscription = session.get(f"c{number}", client_id=client_id)
        session.push(f"c{number}", subscription, SMALL, client_id=client_id)
    session.connect("raw")
    name = b"\x00\x03\xff\xfeA"
    session.send("raw", framed(struct.pack(">hhi", 71, 0, 900) + name + b"\0" + bytes(16) + b"\0"), "not UTF-8")
    body = subscription.client_instance_id.bytes + struct.pack(">i?b", subscription.subscription_id, False, 0) + b"\1\0"
    session.send("raw", framed(struct.pack(">hhi", 72, 0, 901) + name + b"\0" + body), "not UTF-8")
    session.connect("changing")
    for number, client_id in enumerate(("one", "two", "two", "one")):
        subscription = session.get("changing", uuid.UUID(int=55 << 64), client_id=client_id)
        session.push("changing", subscription, SMALL, f"push {number}", client_id=client_id)
        session.advance(1000)


def tagged(*fields: tuple[int, bytes]) -> bytes:
    return uvarint(len(fields)) + b"".join(uvarint(tag) + uvarint(len(data)) + data for tag, data in fields)


@scenario()
def tagged_fields(session: Session) -> None:
    """Unknown tagged fields in headers and bodies mean nothing; broken ones end the connection."""
    subscription = begin(session)
    body = subscription.client_instance_id.bytes + struct.pack(">i?b", subscription.subscription_id, False, 0)
    body += uvarint(len(SMALL) + 1) + SMALL
    plain = struct.pack(">hhi", 72, 0, 500) + b"\0\6golden"
    some = tagged((0, b"x"), (7, b""), (300, b"y" * 200))
    for number, request in enumerate(
        (plain + some + body + b"\0", plain + b"\0" + body + some, plain + some + body + some)
    ):
        session.send("a", framed(request), f"request {number}")
        session.advance(1000)
    session.send(
        "a",
        framed(struct.pack(">hhi", 71, 0, 501) + b"\0\6golden" + some + subscription.client_instance_id.bytes + some),
    )
    for number, broken in enumerate((b"\1", b"\1\0\x7f", b"\xff\xff\xff\xff\xff", tagged((3, b""), (2, b"")))):
        session.connect(f"broken{number}")
        session.send(f"broken{number}", framed(plain + broken + body + b"\0"), "in the header")
        session.connect(f"body{number}")
        session.send(f"body{number}", framed(plain + b"\0" + body + broken), "in the body")


@scenario()
def malformed_requests(session: Session) -> None:
    """Headers and bodies that are cut, too long, of unknown APIs or versions; frames of impossible sizes."""
    subscription = begin(session)
    push = push_request(600, subscription.client_instance_id, subscription.subscription_id, SMALL)[4:]
    get = header(71, 0, 601, "golden") + bytes(17)
    made = {
        "push, cut": framed(push[:-5]),
        "push, and more": framed(push + b"more"),
        "push, payload longer than the frame": framed(
            push.replace(uvarint(len(SMALL) + 1) + SMALL[:8], b"\x7f" + SMALL[:8])
        ),
        "push v1": framed(struct.pack(">hh", 72, 1) + push[4:]),
        "push v-1": framed(struct.pack(">hh", 72, -1) + push[4:]),
        "get, cut": framed(get[:-3]),
        "get, and more": framed(get + b"\0"),
        "get v1": framed(struct.pack(">hh", 71, 1) + get[4:]),
        "produce": framed(header(0, 9, 1, "golden") + bytes(20)),
        "fetch": framed(header(1, 12, 1, None) + bytes(20)),
        "api 9999": framed(header(9999, 0, 1, "golden")),
        "api -1": framed(header(-1, 0, 1, "golden")),
        "header, cut": framed(header(72, 0, 1, "golden")[:9]),
        "client id of length -2": framed(struct.pack(">hhih", 72, 0, 1, -2) + b"\0" + push),
        "size 0": bytes(4),
        "size -1": b"\xff\xff\xff\xff",
        "size 4": framed(b"abcd"),
        "size of 2 GiB": b"\x7f\xff\xff\xff",
        "HTTP": b"GET / HTTP/1.1\r\nHost: fleetgauge\r\n\r\n",
        "TLS": bytes.fromhex("16030100c8010000c40303"),
    }
    for number, (what, data) in enumerate(made.items()):
        session.connect(f"bad{number}")
        session.send(f"bad{number}", data, what)
    session.push("a", subscription, SMALL, "others are served")


@scenario()
def api_versions(session: Session) -> None:
    """ApiVersions of every version, of unknown ones, with bad names, and again on the same connection."""
    session.connect("a")
    for version in (0, 1, 2, 3, 4, 5, 99, -1):
        session.send("a", session.versions_frame(api_version=version), f"v{version}")
    subscription = session.get("a")
    session.push("a", subscription, SMALL, "under the first name")
    for number, (name, release) in enumerate((("", ""), ("bad name!", "1"), ("librdkafka", "2.5.1"), ("x" * 300, "1"))):
        session.connect(f"n{number}")
        session.send(f"n{number}", session.versions_frame(name, release), f"{name[:20]!r} {release}")
        session.push(f"n{number}", session.get(f"n{number}"), SMALL)


@scenario()
def software_named_late(session: Session) -> None:
    """ApiVersions after the first push: the rows from then on carry the software, and the guard looks again."""
    session.connect("a")
    subscription = session.get("a")
    session.push("a", subscription, SMALL, "of unknown software")
    session.send("a", session.versions_frame("kgo", "v1.22.2"))
    session.advance(1000)
    session.push("a", subscription, SMALL, "of kgo")
    session.get("a", subscription.client_instance_id)
    session.send("a", session.versions_frame("apache-kafka-java", "3.9.1"))
    session.advance(1000)
    again = session.get("a", subscription.client_instance_id)
    session.push("a", again, SMALL, "of a Java client")
    session.advance(1000)
    session.push("a", again, SMALL)


@scenario()
def metadata(session: Session) -> None:
    """What a client asks before it pushes: Metadata, DescribeCluster; and what one that produces asks."""
    session.connect("a")
    session.send("a", session.versions_frame())
    session.send("a", session.metadata_frame(), "no topics")
    session.send("a", session.metadata_frame("orders", "bills"), "topics that are not here")
    session.send("a", session.metadata_frame("orders"), "once more")
    session.send("a", framed(header(60, 1, 70, "golden") + b"\0\1\0"), "DescribeCluster v1")
    session.send("a", framed(header(3, 12, 71, "golden") + b"\0\0\0\0"), "Metadata v12, all topics")

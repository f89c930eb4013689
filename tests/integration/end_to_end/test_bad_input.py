"""Bad input from clients: each gets its documented error code or a closed connection, and disturbs nobody."""

import gzip
import io
import socket
import struct
import uuid
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard
from support.clients.raw_client import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    RawClient,
    framed,
    header,
    push_request,
)
from support.payloads.payloads import metrics_data
from support.programs.node import Node
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

INVALID_REQUEST, UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD = 42, 76, 87
THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SUBSCRIPTION_ID, TELEMETRY_TOO_LARGE = 89, 117, 118


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("bad-input"), "telemetry.max.decompressed.bytes=1048576") as running:
        yield running


@pytest.fixture(autouse=True)
def others_are_served(node: Node) -> Iterator[None]:
    """Whatever a test does, a well-behaved client on a connection opened before it is served after it."""
    with RawClient(node.port) as other:
        subscription = other.get()
        yield
        assert other.push(subscription, metrics_data()).error_code == 0


def closed_by_reason(node: Node) -> dict[str, int]:
    return dict(node.status()["connections"][0]["closed"])


def expect_closed(node: Node, client: RawClient, reason: str, before: dict[str, int]) -> None:
    client.socket.settimeout(PATIENCE_S)
    assert client.socket.recv(1) == b"", "the connection should have been closed without an answer"
    node.wait_for(
        lambda s: s["connections"][0]["closed"].get(reason, 0) == before.get(reason, 0) + 1, what=f"reason {reason}"
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack(">i", -1), "negative_frame_size"),
        (struct.pack(">i", 0), "empty_frame"),
        (struct.pack(">i", 2**31 - 1), "frame_too_large"),
        (framed(b"\x00"), "short_frame"),
        (framed(header(9999, 0, 1, "x")), "unknown_api_key"),
        (framed(header(72, 7, 1, "x")), "unsupported_version"),
        (framed(header(72, 0, 1, "x") + b"short"), "malformed_body"),
        (framed(b"GET / HTTP/1.1\r\n"), "unknown_api_key"),
    ],
)
def test_malformed_frames_close_their_connection_with_a_counted_reason(node: Node, data: bytes, reason: str) -> None:
    before = closed_by_reason(node)
    with RawClient(node.port) as client:
        client.send(data)
        expect_closed(node, client, reason, before)


def test_a_frame_cut_anywhere_leaves_others_served(node: Node) -> None:
    whole = push_request(1, uuid.uuid4(), 1, metrics_data())
    for cut in range(0, len(whole), 7):
        with RawClient(node.port) as client:
            client.send(whole[:cut])


def test_a_null_instance_id_on_a_push_is_an_invalid_request(node: Node) -> None:
    with RawClient(node.port) as client:
        subscription = client.get()
        assert client.push(subscription, metrics_data(), instance_id=uuid.UUID(int=0)).error_code == INVALID_REQUEST


def test_an_unknown_subscription_id_is_answered_so_and_the_client_is_back_in_one_round_trip(node: Node) -> None:
    with RawClient(node.port) as client:
        subscription = client.get()
        wrong = client.push(subscription, metrics_data(), subscription_id=subscription.subscription_id ^ 1)
        assert wrong.error_code == UNKNOWN_SUBSCRIPTION_ID
        again = client.get(subscription.client_instance_id)
        assert (again.error_code, again.client_instance_id) == (0, subscription.client_instance_id)
        assert client.push(again, metrics_data()).error_code == 0


def test_a_push_before_its_time_is_throttled_without_muting(node: Node) -> None:
    with RawClient(node.port) as client:
        subscription = client.get()
        assert client.push(subscription, metrics_data()).error_code == 0
        early = client.push(subscription, metrics_data())
        assert (early.error_code, early.throttle_time_ms) == (THROTTLING_QUOTA_EXCEEDED, 0)


def test_a_terminating_push_is_the_last(node: Node) -> None:
    with RawClient(node.port) as client:
        subscription = client.get()
        assert client.push(subscription, metrics_data()).error_code == 0
        assert client.push(subscription, metrics_data(), terminating=True).error_code == 0
        assert client.push(subscription, metrics_data()).error_code == INVALID_REQUEST
        assert client.push(subscription, metrics_data()).error_code == INVALID_REQUEST


def test_an_unknown_compression_id_is_refused_and_the_client_may_come_back_at_once(node: Node) -> None:
    with RawClient(node.port) as client:
        subscription = client.get()
        assert client.push(subscription, b"x", compression_type=5).error_code == UNSUPPORTED_COMPRESSION_TYPE
        again = client.get(subscription.client_instance_id)
        assert client.push(again, metrics_data()).error_code == 0


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_bytes_that_are_not_of_the_claimed_codec_are_an_invalid_record(node: Node, codec: int) -> None:
    with RawClient(node.port) as client:
        assert client.push(client.get(), b"\xfe" * 100, compression_type=codec).error_code == INVALID_RECORD


def stated_zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def unstated_zstd(data: bytes) -> bytes:
    out = io.BytesIO()
    with zstandard.ZstdCompressor(write_content_size=False).stream_writer(out, closefd=False) as writer:
        writer.write(data)
    return out.getvalue()


@pytest.mark.parametrize(("compress", "codec"), [(stated_zstd, ZSTD), (unstated_zstd, ZSTD), (gzip.compress, GZIP)])
def test_a_decompression_bomb_is_too_large(node: Node, compress: Callable[[bytes], bytes], codec: int) -> None:
    bomb = compress(bytes(10 * 1024 * 1024))
    assert len(bomb) < 20_000
    with RawClient(node.port) as client:
        assert client.push(client.get(), bomb, compression_type=codec).error_code == TELEMETRY_TOO_LARGE


def test_a_payload_over_telemetry_max_bytes_is_too_large_and_the_next_smaller_one_is_taken(node: Node) -> None:
    with RawClient(node.port) as client:
        subscription = client.get()
        assert client.push(subscription, bytes(1_048_577)).error_code == TELEMETRY_TOO_LARGE
        assert client.push(subscription, metrics_data()).error_code == 0, "the refused push gave back its turn"


def test_malformed_protobuf_is_accepted_as_by_a_broker_and_counted(node: Node) -> None:
    before = node.status()["telemetry"]["malformed"].get("malformed_metrics_data", 0)
    with RawClient(node.port) as client:
        assert client.push(client.get(), b"\x0a\xff\xff\xff\xff\x0f").error_code == 0
    assert node.status()["telemetry"]["malformed"]["malformed_metrics_data"] == before + 1


@pytest.mark.parametrize(
    ("payload", "codec"),
    [(b"", 0), (None, 0), (zstandard.ZstdCompressor().compress(b""), ZSTD), (gzip.compress(b""), GZIP)],
    ids=["empty", "null", "zstd", "gzip"],
)
def test_a_heartbeat_is_accepted(node: Node, payload: bytes | None, codec: int) -> None:
    with RawClient(node.port) as client:
        assert client.push(client.get(), payload, compression_type=codec).error_code == 0


def send_until_refused(client: RawClient, data: bytes) -> None:
    """Sends until the socket takes no more, up to 256 MiB."""
    sent = 0
    while sent < 256 * 1024 * 1024:
        sent += client.socket.send(data)


def test_a_client_that_never_reads_is_held_within_bounds(node: Node) -> None:
    """It may send what it likes: the node stops reading it once its responses pile up, and serves the others."""
    with RawClient(node.port) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.socket.settimeout(1.0)
        request = framed(header(3, 1, 1, "flood") + struct.pack(">i", 0))
        with pytest.raises(TimeoutError):
            send_until_refused(client, request * 1000)
        assert node.process is not None
        rss = int(Path(f"/proc/{node.process.pid}/statm").read_text().split()[1]) * 4096
        assert rss < 400 * 1024 * 1024


def test_a_truncated_gzip_is_an_invalid_record(node: Node) -> None:
    whole = zlib.compress(metrics_data(50), wbits=31)
    with RawClient(node.port) as client:
        assert client.push(client.get(), whole[:-9], compression_type=GZIP).error_code == INVALID_RECORD


def test_refusals_are_counted_by_error_code(node: Node) -> None:
    answers = node.status()["telemetry"]["push_answers"]
    with RawClient(node.port) as client:
        client.push(client.get(), b"no zstd", compression_type=ZSTD)
    after = node.status()["telemetry"]["push_answers"]
    assert after["INVALID_RECORD"] == answers.get("INVALID_RECORD", 0) + 1

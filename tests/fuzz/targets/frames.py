"""`messages.frames` and `channels.connection` of `wire`: the stream arrives in any pieces, responses in any order."""

import struct
from collections.abc import Iterator

from fuzz.program import Program
from fuzz.target import Target
from support.clients.raw_client import framed, get_request, push_request
from support.payloads.payloads import metrics_data

from fleetgauge.wire.channels.connection import Connection
from fleetgauge.wire.errors import ProtocolError

MAX_FRAME_BYTES = 4_096
MAX_IN_FLIGHT = 3
SHORTEST = 8


def frames_of(stream: bytes) -> tuple[list[bytes], bool]:
    """The frames of a whole stream, cut in the obvious way, and whether what follows them is none."""
    found: list[bytes] = []
    while len(stream) >= 4:
        (size,) = struct.unpack_from(">i", stream)
        if not SHORTEST <= size <= MAX_FRAME_BYTES:
            return found, True
        if len(stream) < 4 + size:
            break
        found.append(stream[4 : 4 + size])
        stream = stream[4 + size :]
    return found, False


class _Peer:
    """Drives one connection and remembers what it should have seen."""

    def __init__(self) -> None:
        self.connection = Connection(max_frame_bytes=MAX_FRAME_BYTES, max_in_flight_requests=MAX_IN_FLIGHT)
        self.taken: list[bytes] = []
        self.open: list[int] = []
        self.sent = b""
        self.mutes = 0
        self.failed = False

    def take(self) -> bool:
        may = self.connection.may_take
        try:
            frame = self.connection.take()
        except ProtocolError:
            self.failed = True
            assert may
            return False
        assert (frame is not None) is may
        if frame is None:
            return False
        self.taken.append(frame)
        self.open.append(self.connection.open_slot())
        assert self.connection.in_flight <= MAX_IN_FLIGHT
        return True

    def respond(self, choice: int) -> None:
        if self.open:
            slot = self.open.pop(choice % len(self.open))
            self.connection.respond(slot, struct.pack(">i", slot))

    def send(self) -> None:
        if self.connection.has_output:
            self.sent += self.connection.data_to_send()

    def turn_mute(self) -> None:
        if self.mutes:
            self.mutes -= 1
            self.connection.unmute()
        else:
            self.mutes += 1
            self.connection.mute()


def run(data: bytes) -> None:
    program = Program(data)
    peer = _Peer()
    stream = b""
    while program.is_left:
        operation = program.byte() % 8
        if operation < 3:
            piece = program.take(program.byte())
            peer.connection.receive_data(piece)
            stream += piece
        elif operation == 3:
            peer.take()
        elif operation == 4:
            peer.respond(program.byte())
        elif operation == 5:
            peer.send()
        elif operation == 6:
            peer.turn_mute()
        else:
            peer.connection.peer_reads = not peer.connection.peer_reads
        assert peer.connection.buffered_bytes <= len(stream)
    _finish(peer, stream)


def _finish(peer: _Peer, stream: bytes) -> None:
    """Lets everything through, and compares."""
    peer.connection.peer_reads = True
    while peer.mutes:
        peer.turn_mute()
    peer.send()
    while peer.take() or peer.open:
        peer.respond(0)
        peer.send()
    frames, is_bad = frames_of(stream)
    assert peer.taken == frames
    assert peer.failed is is_bad
    assert peer.sent == b"".join(struct.pack(">i", slot) for slot in range(len(frames))), "responses out of order"
    peer.connection.close()
    assert peer.connection.buffered_bytes == 0


def seeds() -> Iterator[bytes]:
    import uuid

    stream = get_request(1, None) + push_request(2, uuid.UUID(int=5), 7, metrics_data(1)) + get_request(3, None)
    for cut in (1, 9, 200):
        pieces = [stream[at : at + cut] for at in range(0, len(stream), cut)]
        yield b"".join(bytes((0, len(piece))) + piece for piece in pieces) + b"\x03\x03\x04\x01\x04\x00\x05"
    yield b"".join(b"\x00" + bytes((len(each),)) + each for each in (framed(b""), stream))
    yield b"\x00\x04" + struct.pack(">i", -1)
    yield b"\x00\x08" + struct.pack(">ii", 2**31 - 1, 0) + b"\x06\x03\x06\x03"


TARGET = Target(run=run, seeds=seeds, max_bytes=1_024, memory_bytes=1 << 20, steps_per_byte=200)

"""State machine of one connection without its socket: frames that may be handled, responses that may be sent.

Three rules: responses are sent in the order of their requests, in whatever order they are made; `take` returns no frame
while the connection is muted, its peer does not read, or `max_in_flight_requests` are unanswered; an error of the
stream is raised after every frame before it. `wire.channels.tcp_channel` connects it to a socket.
"""

import enum
from typing import Final

from fleetgauge.wire.errors import LocalProtocolError, ProtocolError
from fleetgauge.wire.messages.frames import MIN_REQUEST_BYTES, FrameDecoder


class ConnectionState(enum.Enum):
    """State of a connection: how it treats its next frame."""

    OPEN = "open"
    """Handles it."""
    MUTED = "muted"
    """Keeps it until the connection is unmuted: the client is throttled by a quota."""
    DRAINING = "draining"
    """Never handles it; requests in flight are still answered."""
    CLOSED = "closed"
    """Never handles it, and drops every response."""


class ConnectionEvent(enum.Enum):
    """Events that change the state of a connection."""

    MUTE = enum.auto()
    UNMUTE = enum.auto()
    """One of several mutes ended."""
    LAST_UNMUTE = enum.auto()
    """The last mute ended."""
    DRAIN = enum.auto()
    CLOSE = enum.auto()


_S, _E = ConnectionState, ConnectionEvent

# The bits of `Connection.blocked`: reasons why the next frame cannot be handled as soon as it arrives.
_NOT_OPEN: Final = 1
_UNREAD: Final = 2
"""Too many responses are unread by the peer."""
_WAITING: Final = 4
"""Earlier frames are waiting."""
_INPUT_ENDED: Final = 8
_BAD_STREAM: Final = 16
"""The bytes after the waiting frames are malformed."""

TRANSITIONS: Final[dict[ConnectionState, dict[ConnectionEvent, ConnectionState]]] = {
    _S.OPEN: {_E.MUTE: _S.MUTED, _E.DRAIN: _S.DRAINING, _E.CLOSE: _S.CLOSED},
    _S.MUTED: {
        _E.MUTE: _S.MUTED,
        _E.UNMUTE: _S.MUTED,
        _E.LAST_UNMUTE: _S.OPEN,
        _E.DRAIN: _S.DRAINING,
        _E.CLOSE: _S.CLOSED,
    },
    # A throttle may end after the connection began to drain, so mutes and unmutes are still accepted.
    _S.DRAINING: dict.fromkeys(_E, _S.DRAINING) | {_E.CLOSE: _S.CLOSED},
    _S.CLOSED: dict.fromkeys(_E, _S.CLOSED),
}


class Connection:
    """The state of one connection.

    Args:
        max_frame_bytes: as in `FrameDecoder`.
        max_in_flight_requests: maximum number of unanswered requests.

    Attributes:
        state: see `ConnectionState`.
        blocked: 0 while the next frame may be handled on arrival and the next bytes may be read; otherwise one bit per
            reason. Maintained at each change, so that the usual request needs a single test.
        next_slot: index of the next request in the order of responses.
    """

    __slots__ = (
        "_decoder",
        "_early",
        "_max_in_flight",
        "_mutes",
        "_outgoing",
        "_sent",
        "_turn",
        "_waiting",
        "blocked",
        "next_slot",
        "state",
    )

    def __init__(self, *, max_frame_bytes: int, max_in_flight_requests: int) -> None:
        self._decoder = FrameDecoder(max_frame_bytes)
        self._max_in_flight = max_in_flight_requests
        # In reverse order, the next frame last. Not a deque: an empty one takes 760 bytes on every idle connection.
        self._waiting: list[bytes] = []
        # Slots count up from 0. Below _sent: response sent. Below _turn: response in _outgoing. Below next_slot:
        # request handed out. _early holds responses that were made out of order; None until there is one.
        self.next_slot = 0
        self._turn = 0
        self._sent = 0
        self._early: dict[int, bytes] | None = None
        self._outgoing: list[bytes] = []
        self._mutes = 0
        self.state = ConnectionState.OPEN
        self.blocked = 0

    @property
    def in_flight(self) -> int:
        """Number of requests handed out and not yet answered."""
        return self.next_slot - self._sent

    @property
    def peer_reads(self) -> bool:
        """False while too many written bytes are unread; set by the channel."""
        return not self.blocked & _UNREAD

    @peer_reads.setter
    def peer_reads(self, reads: bool) -> None:
        self.blocked = self.blocked & ~_UNREAD if reads else self.blocked | _UNREAD

    @property
    def input_ended(self) -> bool:
        """True once the peer has closed its side."""
        return bool(self.blocked & _INPUT_ENDED)

    @property
    def buffered_bytes(self) -> int:
        """Size of unhandled input [B]: the incomplete frame and the waiting ones."""
        return sum(map(len, self._waiting)) + self._decoder.buffered_bytes

    @property
    def is_cut(self) -> bool:
        """True if the input ended within a frame."""
        return self.input_ended and self._decoder.buffered_bytes > 0

    @property
    def is_muted(self) -> bool:
        """True while at least one mute has no matching unmute."""
        return self._mutes > 0

    @property
    def is_held_up(self) -> bool:
        """True if this side has paused reading: the connection is muted, or too many requests are unanswered."""
        return self._mutes > 0 or (self.peer_reads and bool(self._waiting))

    @property
    def wants_read(self) -> bool:
        """True if the next bytes may be read: no frame is waiting, and the next one may be handled."""
        return not self.blocked

    @property
    def is_at_rest(self) -> bool:
        """True if no input is buffered, and more may be read."""
        return not self.blocked and self._decoder.partial is None

    @property
    def may_take(self) -> bool:
        """True if `take` has a frame to hand out, or an error to raise."""
        if self.blocked & (_NOT_OPEN | _UNREAD):
            return False
        if not self._waiting:
            return self._decoder.error is not None
        return self.next_slot - self._sent < self._max_in_flight

    @property
    def is_finished(self) -> bool:
        """True if no frame or response follows: input has ended or is ignored, and all requests are answered."""
        given_up = self.state is ConnectionState.DRAINING or self.state is ConnectionState.CLOSED
        return (given_up or self.input_ended) and not self._waiting and self.next_slot == self._sent

    @property
    def has_output(self) -> bool:
        """True if `data_to_send` has something to hand over."""
        return self._sent != self._turn

    def bound_frames(self, min_frame_bytes: int | None, max_frame_bytes: int, limit_name: str) -> None:
        """Sets the size bounds of later frames; None is the minimum size of a request. See `FrameDecoder.bound`."""
        smallest = MIN_REQUEST_BYTES if min_frame_bytes is None else min_frame_bytes
        self._decoder.bound(smallest, max_frame_bytes, limit_name)

    def open_slot_for(self, data: bytes) -> int:
        """Opens a slot for a chunk that is exactly one frame and may be handled on arrival; replaces `receive_data`.

        Returns:
            The slot; -1 if the chunk must be passed to `receive_data`.
        """
        slot = self.next_slot
        if self.blocked or not self._decoder.is_one_frame(data) or slot - self._sent >= self._max_in_flight:
            return -1
        self.next_slot = slot + 1
        return slot

    def withdraw_slot(self) -> None:
        """Undoes `open_slot_for`; the slot must be unused."""
        self.next_slot -= 1

    def receive_data(self, data: bytes) -> int:
        """Receives bytes; returns the number of completed frames. An error of the stream is raised by `take`."""
        decoder = self._decoder
        state = self.state
        if state is ConnectionState.CLOSED or state is ConnectionState.DRAINING or decoder.error is not None:
            return 0
        try:
            frames = decoder.receive(data)
        except ProtocolError:
            self.blocked |= _BAD_STREAM
            return 0
        if self._decoder.error is not None:  # behind whole frames
            self.blocked |= _BAD_STREAM
        if frames:
            frames.reverse()
            # Frames of an earlier chunk wait only while reading is being paused, so little is copied here.
            self._waiting = frames + self._waiting
            self.blocked |= _WAITING
        return len(frames)

    def end_input(self) -> None:
        """Notes that the peer has closed its side; requests that it sent are still handled and answered."""
        self.blocked |= _INPUT_ENDED

    def take(self) -> bytes | None:
        """Returns the next frame to handle; None if no frame is waiting, or none may be handled now.

        Raises:
            ProtocolError: all frames were handed out, and the bytes after them are malformed.
        """
        if not self.may_take:
            return None
        if not self._waiting:
            assert self._decoder.error is not None
            raise self._decoder.error
        frame = self._waiting.pop()
        if not self._waiting:
            self.blocked &= ~_WAITING
        return frame

    def open_slot(self) -> int:
        """Opens a slot for the next request and returns its index in the order of responses."""
        slot = self.next_slot
        self.next_slot = slot + 1
        return slot

    def respond(self, slot: int, response: bytes) -> None:
        """Adds the response to one request: `response` with its size prefix, empty for a request without a response.

        After the connection has ended the response is dropped.

        Raises:
            LocalProtocolError: the slot was never opened, or already has a response.
        """
        if self.state is ConnectionState.CLOSED:
            return
        early = self._early
        if not self._turn <= slot < self.next_slot or (early and slot in early):
            raise LocalProtocolError(f"slot {slot} awaits no response")
        if slot != self._turn:
            if early is None:
                early = self._early = {}
            early[slot] = response
            return
        self._outgoing.append(response)
        self._turn += 1
        while early and self._turn in early:
            self._outgoing.append(early.pop(self._turn))
            self._turn += 1

    def complete_alone(self, slot: int) -> bool:
        """True if the slot is the only one in flight, and nothing stands in the way: its response counts as sent, and
        the caller writes it.
        """
        if self.blocked or slot != self._turn or self.next_slot - self._sent != 1:
            return False
        self._turn = self._sent = self.next_slot
        return True

    def data_to_send(self) -> bytes:
        """Returns all responses that are due in order, joined, and marks them as sent."""
        outgoing = self._outgoing
        data = outgoing[0] if len(outgoing) == 1 else b"".join(outgoing)
        outgoing.clear()
        self._sent = self._turn
        return data

    def mute(self) -> None:
        """Pauses handling of frames until each `mute` has its `unmute` (Kafka's channel mute)."""
        self._move(ConnectionEvent.MUTE)
        self._mutes += 1

    def unmute(self) -> bool:
        """Ends one mute; True if it was the last one, and frames may be handled again.

        Raises:
            LocalProtocolError: the connection is not muted.
        """
        if self._mutes == 0:
            raise LocalProtocolError("an unmute without its mute")
        self._mutes -= 1
        self._move(ConnectionEvent.UNMUTE if self._mutes else ConnectionEvent.LAST_UNMUTE)
        return self.state is ConnectionState.OPEN

    def drain(self) -> None:
        """Stops handling frames and drops waiting ones; requests in flight may still be answered."""
        self._move(ConnectionEvent.DRAIN)
        self._forget_input()

    def close(self) -> None:
        """Closes the connection; idempotent."""
        self._move(ConnectionEvent.CLOSE)
        self._forget_input()
        self._early = None
        self._outgoing.clear()
        self._sent = self._turn = self.next_slot

    def _move(self, event: ConnectionEvent) -> None:
        self.state = TRANSITIONS[self.state][event]
        is_open = self.state is ConnectionState.OPEN
        self.blocked = self.blocked & ~_NOT_OPEN if is_open else self.blocked | _NOT_OPEN

    def _forget_input(self) -> None:
        self._waiting.clear()
        self._decoder.discard()
        self.blocked &= ~_WAITING

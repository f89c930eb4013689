"""One connection without its socket: which frames may be handled now, and which responses may leave.

Three rules: responses leave in the order of their requests, whatever the order in which they are made; no frame is
handed out while the connection is muted, its peer does not read, or `max_in_flight_requests` wait for their turn; an
error of the stream shows after every frame before it. The shell around it is `wire.tcp_channel`.
"""

import enum
from typing import Final

from wire.errors import LocalProtocolError, ProtocolError
from wire.frames import MIN_REQUEST_BYTES, FrameDecoder


class ConnectionState(enum.Enum):
    """What a connection does with its next frame."""

    OPEN = "open"
    """Handles it."""
    MUTED = "muted"
    """Keeps it until it is unmuted: a quota was crossed."""
    DRAINING = "draining"
    """Never handles it; what is in flight is still answered."""
    CLOSED = "closed"
    """Never handles it, and drops every response."""


class ConnectionEvent(enum.Enum):
    """What moves a connection from state to state."""

    MUTE = enum.auto()
    UNMUTE = enum.auto()
    """One mute of several is over."""
    LAST_UNMUTE = enum.auto()
    """Every mute is over."""
    DRAIN = enum.auto()
    CLOSE = enum.auto()


_S, _E = ConnectionState, ConnectionEvent

# The bits of `Connection.blocked`: why the next frame cannot be handled right where it arrives.
_NOT_OPEN: Final = 1
_UNREAD: Final = 2
"""The peer leaves too many responses unread."""
_WAITING: Final = 4
"""Earlier frames wait."""
_INPUT_ENDED: Final = 8
_BAD_STREAM: Final = 16
"""What follows the waiting frames is no frame."""

TRANSITIONS: Final[dict[ConnectionState, dict[ConnectionEvent, ConnectionState]]] = {
    _S.OPEN: {_E.MUTE: _S.MUTED, _E.DRAIN: _S.DRAINING, _E.CLOSE: _S.CLOSED},
    _S.MUTED: {
        _E.MUTE: _S.MUTED,
        _E.UNMUTE: _S.MUTED,
        _E.LAST_UNMUTE: _S.OPEN,
        _E.DRAIN: _S.DRAINING,
        _E.CLOSE: _S.CLOSED,
    },
    # A throttle that ends late must find its connection, in whatever state: muting goes on being counted.
    _S.DRAINING: dict.fromkeys(_E, _S.DRAINING) | {_E.CLOSE: _S.CLOSED},
    _S.CLOSED: dict.fromkeys(_E, _S.CLOSED),
}


class Connection:
    """The state of one connection.

    Args:
        max_frame_bytes: as in `FrameDecoder`.
        max_in_flight_requests: how many requests may wait for their response to leave.

    Attributes:
        state: see `ConnectionState`.
        blocked: 0 while the next frame may be handled where it arrives and the next bytes may be read; else a bit for
            each reason why not. Changed by what changes the reason, so that the usual request tests it once.
        next_slot: the place of the next request in the order of responses.
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
        # The next one last. No deque: an empty one takes 760 bytes, on every idle connection.
        self._waiting: list[bytes] = []
        # Slots are counted up from 0: below _sent the response has left, below _turn it is in _outgoing, below
        # next_slot the request was handed out; _early holds the responses that came before their turn, once any did.
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
        """Requests handed out whose response has not left."""
        return self.next_slot - self._sent

    @property
    def peer_reads(self) -> bool:
        """False while too much that was written is still unread; set by the shell."""
        return not self.blocked & _UNREAD

    @peer_reads.setter
    def peer_reads(self, reads: bool) -> None:
        self.blocked = self.blocked & ~_UNREAD if reads else self.blocked | _UNREAD

    @property
    def input_ended(self) -> bool:
        """True once the peer said that it sends no more."""
        return bool(self.blocked & _INPUT_ENDED)

    @property
    def buffered_bytes(self) -> int:
        """Bytes received that no handler has seen [B]: the incomplete frame and the waiting ones."""
        return sum(map(len, self._waiting)) + self._decoder.buffered_bytes

    @property
    def is_cut(self) -> bool:
        """True if the input ended within a frame."""
        return self.input_ended and self._decoder.buffered_bytes > 0

    @property
    def is_muted(self) -> bool:
        """True while a mute has not had its unmute."""
        return self._mutes > 0

    @property
    def is_held_up(self) -> bool:
        """True if its next bytes are not read for our own sake: it is muted, or earlier requests await responses."""
        return self._mutes > 0 or (self.peer_reads and bool(self._waiting))

    @property
    def wants_read(self) -> bool:
        """True if the next bytes may be read: everything read before has been handed out, and more may be."""
        return not self.blocked

    @property
    def is_at_rest(self) -> bool:
        """True if everything that was received has been handed out, and more may be read."""
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
        """True if nothing more will be handed out or sent: the input ended or is given up, and all is answered."""
        given_up = self.state is ConnectionState.DRAINING or self.state is ConnectionState.CLOSED
        return (given_up or self.input_ended) and not self._waiting and self.next_slot == self._sent

    @property
    def has_output(self) -> bool:
        """True if `data_to_send` has something to hand over."""
        return self._sent != self._turn

    def bound_frames(self, min_frame_bytes: int | None, max_frame_bytes: int, limit_name: str) -> None:
        """Other bounds for the frames to come; None is the least that a request has. See `FrameDecoder.bound`."""
        smallest = MIN_REQUEST_BYTES if min_frame_bytes is None else min_frame_bytes
        self._decoder.bound(smallest, max_frame_bytes, limit_name)

    def open_slot_for(self, data: bytes) -> int:
        """Opens a slot for a chunk that is one whole frame and may be handled right here, in place of `receive_data`.

        Returns:
            The slot; -1 if the chunk is to be received as any other.
        """
        slot = self.next_slot
        if self.blocked or not self._decoder.is_one_frame(data) or slot - self._sent >= self._max_in_flight:
            return -1
        self.next_slot = slot + 1
        return slot

    def withdraw_slot(self) -> None:
        """Undoes `open_slot_for`; nothing came of the slot."""
        self.next_slot -= 1

    def receive_data(self, data: bytes) -> int:
        """Takes bytes of the peer; returns how many frames they completed. An error of the stream shows in `take`."""
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
            # More than one chunk waits only while reading stops, so that little is copied.
            self._waiting = frames + self._waiting
            self.blocked |= _WAITING
        return len(frames)

    def end_input(self) -> None:
        """The peer sends no more; what it sent is still handled and answered."""
        self.blocked |= _INPUT_ENDED

    def take(self) -> bytes | None:
        """The next frame to handle, or None when there is none, or none may be handled now.

        Raises:
            ProtocolError: all frames were handed out, and what follows them is no frame.
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
        """The place of the next request in the order of responses."""
        slot = self.next_slot
        self.next_slot = slot + 1
        return slot

    def respond(self, slot: int, response: bytes) -> None:
        """Takes the response to one request: `response` with its size prefix, or nothing for a request without one.

        After the connection's end it is dropped.

        Raises:
            LocalProtocolError: the slot was never opened, or has its response.
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
        """Every response whose turn has come, joined; they count as sent."""
        outgoing = self._outgoing
        data = outgoing[0] if len(outgoing) == 1 else b"".join(outgoing)
        outgoing.clear()
        self._sent = self._turn
        return data

    def mute(self) -> None:
        """No frame is handed out until `unmute` was called as often as this (Kafka's channel mute)."""
        self._move(ConnectionEvent.MUTE)
        self._mutes += 1

    def unmute(self) -> bool:
        """Ends one mute; True if frames may be handed out again by it.

        Raises:
            LocalProtocolError: there is no mute to end.
        """
        if self._mutes == 0:
            raise LocalProtocolError("an unmute without its mute")
        self._mutes -= 1
        self._move(ConnectionEvent.UNMUTE if self._mutes else ConnectionEvent.LAST_UNMUTE)
        return self.state is ConnectionState.OPEN

    def drain(self) -> None:
        """No further frame is handled, waiting ones are dropped; what is in flight may still be answered."""
        self._move(ConnectionEvent.DRAIN)
        self._forget_input()

    def close(self) -> None:
        """The end; may be called again."""
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

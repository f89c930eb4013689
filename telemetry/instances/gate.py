"""The gate of one client instance: which Get and which push is due. Knows times and connections, no subscription or
payload.
"""

from typing import Final

from base.errors import ErrorCode

MAX_SEATS: Final = 4
"""Connections of one instance that have times of their own; clients use one or two."""

_RECOVERING = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})
_NEVER: Final = -1

Turn = tuple["Seat", int, int | None, int, int | None, bool, bool]
"""A push that the gate let through, with what takes it back: its seat, when it was let through; what `last_push_ms` and
`used_ms` of the seat and the latest push on any connection were before it; whether it followed a Get; whether it
terminates.
"""


class Seat:
    """What the gate remembers of one connection. Times are monotonic [ms].

    Attributes:
        connection_id: empty for the seat that connections beyond `MAX_SEATS` share.
        is_terminated: an accepted terminating push was the last one on it.
        last_get_ms, last_push_ms: since when the connection waits for its interval; None before its first Get or push:
            then it waits from the latest one on any connection.
        used_ms: when a Get or a push was last let through on it; -1 before the first.
    """

    __slots__ = ("connection_id", "is_terminated", "last_get_ms", "last_push_ms", "used_ms")

    def __init__(self, connection_id: str) -> None:
        self.connection_id = connection_id
        self.is_terminated = False
        self.last_get_ms: int | None = None
        self.last_push_ms: int | None = None
        self.used_ms = _NEVER


class Gate:
    """Lets through what is due, and nothing twice. Times are monotonic [ms].

    A push is due when it follows a Get that no push has consumed, or a full interval after the last push (KIP-714,
    Throttling and rate-limiting; chapter 19, "Push-interval gating"). With an interval of 60,000 ms, a Get at 0 and
    a push at 31,000 (the client's jitter), the next push is due at 91,000. A Get is due a full interval after the
    last request of either kind, and always after an error that a Get cures.

    An instance id is no secret, so each connection is judged by its own times: another connection that pushes or
    terminates under the same id costs it nothing. A connection that begins waits for an interval after the latest
    request on any other, once, so that a client gains nothing by opening several. Those beyond `MAX_SEATS` share one
    seat; an open connection that keeps to its interval never loses its own.

    Attributes:
        last_known_error: the answer to the instance's latest request.
        seat: of the connection that made the latest request.
    """

    __slots__ = (
        "_cure_opens",
        "_get_unconsumed",
        "_latest_get_ms",
        "_latest_push_ms",
        "_seats",
        "_shared",
        "last_known_error",
        "seat",
    )

    def __init__(self) -> None:
        self._latest_get_ms: int | None = None
        self._latest_push_ms: int | None = None
        self._get_unconsumed = False
        self._cure_opens = True
        self._seats: tuple[Seat, ...] = ()
        self._shared: Seat | None = None
        self.last_known_error = ErrorCode.NONE
        self.seat = Seat("")

    # Connections

    @property
    def connections(self) -> tuple[str, ...]:
        """The connections that have a seat, in the order in which they got it."""
        return tuple(seat.connection_id for seat in self._seats)

    def enter(self, connection_id: str, unused_since_ms: int) -> str | None:
        """The requests to come are of this connection. Returns the connection that loses its seat to it, if any does.

        Args:
            connection_id: which.
            unused_since_ms: a connection on which no request was accepted since then may lose its seat.
        """
        for seat in self._seats:
            if seat.connection_id == connection_id:
                self.seat = seat
                return None
        replaced = None
        if len(self._seats) >= MAX_SEATS:
            replaced = min(self._seats, key=lambda seat: seat.used_ms)
            if replaced.used_ms >= max(0, unused_since_ms):
                if self._shared is None:
                    self._shared = Seat("")
                self.seat = self._shared
                return None
            self._seats = tuple(seat for seat in self._seats if seat is not replaced)
        self.seat = Seat(connection_id)
        self._seats = (*self._seats, self.seat)
        return None if replaced is None else replaced.connection_id

    def leave(self, connection_id: str) -> bool:
        """The connection has ended; True if another one has a seat."""
        self._seats = tuple(seat for seat in self._seats if seat.connection_id != connection_id)
        return bool(self._seats)

    def has_ended_on(self, connection_id: str) -> bool:
        """True if an accepted terminating push was the last one on that connection."""
        return any(seat.is_terminated for seat in self._seats if seat.connection_id == connection_id)

    # Requests on the connection that entered last

    @property
    def may_end_early(self) -> bool:
        """True if a terminating push need not be due: the connection has a seat of its own.

        Else any number of connections could each send one.
        """
        return self.seat is not self._shared

    @property
    def is_terminated(self) -> bool:
        """True if an accepted terminating push was the last one on the connection."""
        return self.seat.is_terminated

    def may_get(self, push_interval_ms: int, now_ms: int) -> bool:
        """True if a Get at `now_ms` is due."""
        if self.last_known_error in _RECOVERING:
            return True
        seat = self.seat
        last_get_ms = self._latest_get_ms if seat.last_get_ms is None else seat.last_get_ms
        last_push_ms = self._latest_push_ms if seat.last_push_ms is None else seat.last_push_ms
        return _has_passed(last_get_ms, push_interval_ms, now_ms) and _has_passed(
            last_push_ms, push_interval_ms, now_ms
        )

    def record_get(self, now_ms: int) -> None:
        """Notes a Get that is answered; the next push is due at once, on whichever connection.

        But not if it cures the error of a last push that was not due: the two would evade the interval together.
        """
        seat = self.seat
        self._latest_get_ms = seat.last_get_ms = seat.used_ms = now_ms
        if self._cure_opens or self.last_known_error not in _RECOVERING:
            self._get_unconsumed = True
        self.last_known_error = ErrorCode.NONE

    def record_early(self) -> None:
        """Notes that the connection was told to wait: from here on, requests on other connections do not count."""
        seat = self.seat
        if seat.last_get_ms is None:
            seat.last_get_ms = self._latest_get_ms
        if seat.last_push_ms is None:
            seat.last_push_ms = self._latest_push_ms

    def may_push(self, push_interval_ms: int, now_ms: int) -> bool:
        """True if a push at `now_ms` is due. A terminating push need not be due, see `may_end_early`."""
        if self._get_unconsumed:
            return True
        last_push_ms = self.seat.last_push_ms
        if last_push_ms is None:
            last_push_ms = self._latest_push_ms
        return last_push_ms is None or now_ms - last_push_ms >= push_interval_ms

    def has_waited(self, push_interval_ms: int, now_ms: int) -> bool:
        """True if the client is seen to keep to its interval: all of it since its last push, or a part since its Get.

        After a Get clients wait for 0.5 to 1.5 intervals (Java, franz-go), or 0.8 to 1.2 (librdkafka); 0.4 leaves room
        for roundings. Of a client of whom nothing is known here it is False.
        """
        if self._get_unconsumed:
            return self._latest_get_ms is not None and (now_ms - self._latest_get_ms) * 5 >= push_interval_ms * 2
        last_push_ms = self._latest_push_ms if self.seat.last_push_ms is None else self.seat.last_push_ms
        return last_push_ms is not None and now_ms - last_push_ms >= push_interval_ms

    def take_turn(self, now_ms: int, *, terminating: bool = False, is_due: bool = True) -> Turn:
        """Notes a push that is let through; with `terminating` it is the last one, unless it is given back.

        If it is let through before it is due, a Get that cures its refusal makes no further push due.
        """
        seat = self.seat
        turn = seat, now_ms, seat.last_push_ms, seat.used_ms, self._latest_push_ms, self._get_unconsumed, terminating
        self._latest_push_ms = seat.last_push_ms = seat.used_ms = now_ms
        self._get_unconsumed = False
        self._cure_opens = is_due
        if terminating and seat is not self._shared:
            seat.is_terminated = True
        return turn

    def pass_over(self, *, is_due: bool) -> None:
        """Notes a push that is refused and costs the client nothing: no turn is taken."""
        self._cure_opens = is_due

    def give_back(self, turn: Turn) -> None:
        """Undoes `take_turn`, for a push whose refusal is to cost the client nothing.

        Where another push was let through meanwhile, that one's time stands. A turn that was due after a Get is
        due again.
        """
        seat, taken_at_ms, previous_push_ms, previous_use_ms, latest_push_ms, followed_a_get, terminating = turn
        if seat.last_push_ms == taken_at_ms:
            seat.last_push_ms = previous_push_ms
            seat.used_ms = previous_use_ms
        if self._latest_push_ms == taken_at_ms:
            self._latest_push_ms = latest_push_ms
        if followed_a_get:
            self._get_unconsumed = True
        if terminating:
            seat.is_terminated = False

    def reopen(self) -> None:
        """Forgets the times, because the client is asked for something else now: its next Get or push is due.

        A connection that has terminated stays terminated.
        """
        self._latest_get_ms = self._latest_push_ms = None
        for seat in (*self._seats, self.seat):
            seat.last_get_ms = seat.last_push_ms = None


def _has_passed(since_ms: int | None, interval_ms: int, now_ms: int) -> bool:
    return since_ms is None or now_ms - since_ms >= interval_ms

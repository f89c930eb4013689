"""Gate of one client instance: decides from times and connections alone whether a Get or a push is due."""

from typing import Final

from fleetgauge.base.errors import ErrorCode

MAX_SEATS: Final = 4
"""Maximum number of an instance's connections with separate times; clients use one or two."""

_RECOVERING = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})
_NEVER: Final = -1

Turn = tuple["Seat", int, int | None, int, int | None, bool, bool]
"""State with which an accepted push can be undone: its seat and its time; the previous `last_push_ms` and `used_ms` of
the seat, and the previous push on any connection; True if it followed a Get; True if it is terminating.
"""


class Seat:
    """State of one connection in the gate (docs/decisions/014-seats-per-connection.md). Times are monotonic [ms].

    Attributes:
        connection_id: empty for the seat shared by connections beyond `MAX_SEATS`.
        is_terminated: True if its latest accepted push was terminating.
        last_get_ms, last_push_ms: start of the connection's current interval; None before its first Get or push, when
            the latest one on any connection counts.
        used_ms: time of its latest accepted Get or push; -1 before the first.
    """

    __slots__ = ("connection_id", "is_terminated", "last_get_ms", "last_push_ms", "used_ms")

    def __init__(self, connection_id: str) -> None:
        self.connection_id = connection_id
        self.is_terminated = False
        self.last_get_ms: int | None = None
        self.last_push_ms: int | None = None
        self.used_ms = _NEVER


class Gate:
    """Accepts each Get and push that is due, once. Times are monotonic [ms].

    A push is due when it follows a Get that no push has consumed, or a full interval after the last push (KIP-714,
    Throttling and rate-limiting; Kafka's `ClientMetricsInstance`). With an interval of 60,000 ms, a Get at 0 and
    a push at 31,000 (the client's jitter), the next push is due at 91,000. A Get is due a full interval after the
    last request of either kind, and always after an error that a Get resolves.

    An instance id is not secret, so each connection has its own times: a push or a terminating push on another
    connection with the same id does not affect it. A new connection first waits for an interval after the latest
    request on any other, so that a client gains nothing by opening several; a terminating push that is not due is
    accepted once for all. Connections beyond `MAX_SEATS` share one seat; an open connection that keeps to its interval
    never loses its own.

    Attributes:
        last_known_error: error code of the instance's latest response.
        seat: seat of the connection with the latest request.
    """

    __slots__ = (
        "_cure_opens",
        "_ended_ms",
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
        self._ended_ms: int | None = None
        self._seats: tuple[Seat, ...] = ()
        self._shared: Seat | None = None
        self.last_known_error = ErrorCode.NONE
        self.seat = Seat("")

    # Connections

    @property
    def connections(self) -> tuple[str, ...]:
        """Connections with a seat, the oldest seat first."""
        return tuple(seat.connection_id for seat in self._seats)

    def enter(self, connection_id: str, unused_since_ms: int) -> str | None:
        """Selects the connection of the next requests. Returns the connection that loses its seat to it, if any.

        Args:
            connection_id: the selected connection.
            unused_since_ms: a connection without an accepted request since then may lose its seat.
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
        """Removes an ended connection; True if another one has a seat."""
        self._seats = tuple(seat for seat in self._seats if seat.connection_id != connection_id)
        return bool(self._seats)

    def has_ended_on(self, connection_id: str) -> bool:
        """True if the latest accepted push on that connection was terminating."""
        return any(seat.is_terminated for seat in self._seats if seat.connection_id == connection_id)

    # Requests on the connection selected by `enter`

    @property
    def is_terminated(self) -> bool:
        """True if the latest accepted push on the connection was terminating."""
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
        """Records an answered Get; the next push is due at once, on any connection.

        Exception: a Get that resolves the error of an early push makes no push due, since a client could alternate both
        to evade its interval.
        """
        seat = self.seat
        self._latest_get_ms = seat.last_get_ms = seat.used_ms = now_ms
        if self._cure_opens or self.last_known_error not in _RECOVERING:
            self._get_unconsumed = True
        self.last_known_error = ErrorCode.NONE

    def record_early(self) -> None:
        """Records that the connection was throttled; from now on, requests on other connections do not count for it."""
        seat = self.seat
        if seat.last_get_ms is None:
            seat.last_get_ms = self._latest_get_ms
        if seat.last_push_ms is None:
            seat.last_push_ms = self._latest_push_ms

    def may_push(self, push_interval_ms: int, now_ms: int) -> bool:
        """True if a push at `now_ms` is due. For terminating pushes see `may_end_early`."""
        if self._get_unconsumed:
            return True
        last_push_ms = self.seat.last_push_ms
        if last_push_ms is None:
            last_push_ms = self._latest_push_ms
        return last_push_ms is None or now_ms - last_push_ms >= push_interval_ms

    def may_end_early(self, push_interval_ms: int, now_ms: int) -> bool:
        """True if a terminating push is accepted before it is due: the first of the instance, on any connection.

        The next one is accepted an interval later, or under another subscription id (KIP-714, Client termination;
        Throttling and rate-limiting).
        """
        return _has_passed(self._ended_ms, push_interval_ms, now_ms)

    def has_waited(self, push_interval_ms: int, now_ms: int) -> bool:
        """True if the client kept to its interval: a full one since its last push, or 0.4 of one since its Get.

        After a Get clients wait for 0.5 to 1.5 intervals (Java, franz-go), or 0.8 to 1.2 (librdkafka); 0.4 allows for
        rounding. False for a client without known times.
        """
        if self._get_unconsumed:
            return self._latest_get_ms is not None and (now_ms - self._latest_get_ms) * 5 >= push_interval_ms * 2
        last_push_ms = self._latest_push_ms if self.seat.last_push_ms is None else self.seat.last_push_ms
        return last_push_ms is not None and now_ms - last_push_ms >= push_interval_ms

    def take_turn(self, now_ms: int, *, terminating: bool = False, is_due: bool = True) -> Turn:
        """Records an accepted push; a terminating one is the connection's last, unless `give_back` undoes it.

        If it is accepted before it is due, a Get that resolves its refusal makes no further push due.
        """
        seat = self.seat
        turn = seat, now_ms, seat.last_push_ms, seat.used_ms, self._latest_push_ms, self._get_unconsumed, terminating
        self._latest_push_ms = seat.last_push_ms = seat.used_ms = now_ms
        self._get_unconsumed = False
        self._cure_opens = is_due
        self.last_known_error = ErrorCode.NONE  # before it is in the log: a Get may follow in the same chunk of bytes
        if terminating:
            self._ended_ms = now_ms
            seat.is_terminated = seat is not self._shared
        return turn

    def pass_over(self, *, is_due: bool) -> None:
        """Records a push that is refused without consuming the client's interval."""
        self._cure_opens = is_due

    def give_back(self, turn: Turn) -> None:
        """Undoes `take_turn`, for a push that is refused without consuming the client's interval.

        If another push was accepted since then, its time stays. A push that followed a Get may be repeated at once.
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
            self._ended_ms = None
            seat.is_terminated = False

    def reopen(self) -> None:
        """Resets the times after a change of the subscription: the next Get or push is due.

        A connection that has terminated stays terminated.
        """
        self._latest_get_ms = self._latest_push_ms = self._ended_ms = None
        for seat in (*self._seats, self.seat):
            seat.last_get_ms = seat.last_push_ms = None


def _has_passed(since_ms: int | None, interval_ms: int, now_ms: int) -> bool:
    return since_ms is None or now_ms - since_ms >= interval_ms

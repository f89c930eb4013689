"""The gate of one client instance: which Get and which push is due. Knows times only, no subscription or payload."""

from wire.errors import ErrorCode

_RECOVERING = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})


class Turn:
    """A push that the gate let through, with what the gate has to remember to take it back."""

    __slots__ = ("followed_a_get", "previous_push_ms", "taken_at_ms", "terminating")

    def __init__(self, taken_at_ms: int, previous_push_ms: int | None, followed_a_get: bool, terminating: bool) -> None:
        self.taken_at_ms = taken_at_ms
        self.previous_push_ms = previous_push_ms
        self.followed_a_get = followed_a_get
        self.terminating = terminating


class Gate:
    """Lets through what is due, and nothing twice. Times are monotonic [ms].

    A push is due when it follows a Get that no push has consumed, or a full interval after the last push (KIP-714,
    Throttling and rate-limiting; chapter 19, "Push-interval gating"). With an interval of 60,000 ms, a Get at 0 and
    a push at 31,000 (the client's jitter), the next push is due at 91,000. A Get is due a full interval after the
    last request of either kind, and always after an error that a Get cures.

    Attributes:
        last_known_error: the answer to the instance's latest request.
        is_terminated: an accepted terminating push was the last one.
    """

    __slots__ = ("_get_unconsumed", "_last_get_ms", "_last_push_ms", "is_terminated", "last_known_error")

    def __init__(self) -> None:
        self._last_get_ms: int | None = None
        self._last_push_ms: int | None = None
        self._get_unconsumed = False
        self.is_terminated = False
        self.last_known_error = ErrorCode.NONE

    def may_get(self, push_interval_ms: int, now_ms: int) -> bool:
        """True if a Get at `now_ms` is due."""
        if self.last_known_error in _RECOVERING:
            return True
        return _has_passed(self._last_get_ms, push_interval_ms, now_ms) and _has_passed(
            self._last_push_ms, push_interval_ms, now_ms
        )

    def record_get(self, now_ms: int) -> None:
        """Notes a Get that is answered; the next push is due at once."""
        self._last_get_ms = now_ms
        self._get_unconsumed = True
        self.last_known_error = ErrorCode.NONE

    def may_push(self, push_interval_ms: int, now_ms: int) -> bool:
        """True if a push at `now_ms` is due. A terminating push need not be due."""
        last_ms = self._last_push_ms
        return self._get_unconsumed or last_ms is None or now_ms - last_ms >= push_interval_ms

    def has_waited(self, push_interval_ms: int, now_ms: int) -> bool:
        """True if the client is seen to keep to its interval: all of it since its last push, or a part since its Get.

        After a Get clients wait for 0.5 to 1.5 intervals (Java, franz-go), or 0.8 to 1.2 (librdkafka); 0.4 leaves room
        for roundings. Of a client of whom nothing is known here it is False.
        """
        if self._get_unconsumed:
            return self._last_get_ms is not None and (now_ms - self._last_get_ms) * 5 >= push_interval_ms * 2
        return self._last_push_ms is not None and now_ms - self._last_push_ms >= push_interval_ms

    def take_turn(self, now_ms: int, *, terminating: bool) -> Turn:
        """Notes a push that is let through; with `terminating` it is the last one, unless it is given back."""
        turn = Turn(now_ms, self._last_push_ms, self._get_unconsumed, terminating)
        self._last_push_ms = now_ms
        self._get_unconsumed = False
        if terminating:
            self.is_terminated = True
        return turn

    def give_back(self, turn: Turn) -> None:
        """Undoes `take_turn`, for a push whose refusal is to cost the client nothing.

        Where another push was let through meanwhile, that one's time stands. A turn that was due after a Get is
        due again.
        """
        if self._last_push_ms == turn.taken_at_ms:
            self._last_push_ms = turn.previous_push_ms
        if turn.followed_a_get:
            self._get_unconsumed = True
        self.give_back_terminating(turn)

    def give_back_terminating(self, turn: Turn) -> None:
        """Undoes what `terminating` did and lets the turn stay used, for a push that is refused for good."""
        if turn.terminating:
            self.is_terminated = False

    def reopen(self) -> None:
        """Forgets the times, because the client is asked for something else now: its next Get or push is due.

        A terminated instance stays terminated.
        """
        self._last_get_ms = None
        self._last_push_ms = None


def _has_passed(since_ms: int | None, interval_ms: int, now_ms: int) -> bool:
    return since_ms is None or now_ms - since_ms >= interval_ms

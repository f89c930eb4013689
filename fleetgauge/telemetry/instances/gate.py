"""Gate of one client instance: decides from times and connections alone whether a Get or a push is due."""

from typing import Final

from fleetgauge.base.errors import ErrorCode

MAX_TIMED: Final = 4
"""Maximum number of an instance's connections with times of their own; clients use one or two."""

_RECOVERING = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})
_NEVER: Final = -1


class ConnectionTimes:
    """Times of one connection (docs/decisions/014-seats-per-connection.md). Times are monotonic [ms].

    Attributes:
        connection_id: empty for the times that connections beyond `MAX_TIMED` share.
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


class PushClaim:
    """An accepted push, with what undoes it. Times are monotonic [ms].

    Attributes:
        times: of its connection.
        now_ms: when it was accepted.
        last_push_ms, used_ms: of the connection before it.
        latest_push_ms: of any connection before it.
        followed_get: True if it consumed a Get.
        terminating: True if it is the connection's last.
    """

    __slots__ = ("followed_get", "last_push_ms", "latest_push_ms", "now_ms", "terminating", "times", "used_ms")

    def __init__(
        self,
        times: ConnectionTimes,
        now_ms: int,
        latest_push_ms: int | None,
        followed_get: bool,
        terminating: bool,
    ) -> None:
        self.times = times
        self.now_ms = now_ms
        self.last_push_ms = times.last_push_ms
        self.used_ms = times.used_ms
        self.latest_push_ms = latest_push_ms
        self.followed_get = followed_get
        self.terminating = terminating


class Gate:
    """Accepts each Get and push that is due, once. Times are monotonic [ms].

    A push is due when it follows a Get that no push has consumed, or a full interval after the last push (KIP-714,
    Throttling and rate-limiting; Kafka's `ClientMetricsInstance`). With an interval of 60,000 ms, a Get at 0 and
    a push at 31,000 (the client's jitter), the next push is due at 91,000. A Get is due a full interval after the
    last request of either kind, and always after an error that a Get resolves.

    An instance id is not secret, so each connection has its own times: a push or a terminating push on another
    connection with the same id does not affect it. A new connection first waits for an interval after the latest
    request on any other, so that a client gains nothing by opening several; a terminating push that is not due is
    accepted once for all. Connections beyond `MAX_TIMED` share theirs; an open connection that keeps to its interval
    never loses its own.

    Attributes:
        last_known_error: error code of the instance's latest response.
        times: of the connection with the latest request.
    """

    __slots__ = (
        "_cure_opens",
        "_ended_ms",
        "_get_unconsumed",
        "_latest_get_ms",
        "_latest_push_ms",
        "_shared",
        "_timed",
        "last_known_error",
        "times",
    )

    def __init__(self) -> None:
        self._latest_get_ms: int | None = None
        self._latest_push_ms: int | None = None
        self._get_unconsumed = False
        self._cure_opens = True
        self._ended_ms: int | None = None
        self._timed: tuple[ConnectionTimes, ...] = ()
        self._shared: ConnectionTimes | None = None
        self.last_known_error = ErrorCode.NONE
        self.times = ConnectionTimes("")

    # Connections

    @property
    def connections(self) -> tuple[str, ...]:
        """Connections with times of their own, the oldest first."""
        return tuple(times.connection_id for times in self._timed)

    def enter(self, connection_id: str, unused_since_ms: int) -> str | None:
        """Selects the connection of the next requests. Returns the connection that loses its times to it, if any.

        Args:
            connection_id: the selected connection.
            unused_since_ms: a connection without an accepted request since then may lose its times.
        """
        for times in self._timed:
            if times.connection_id == connection_id:
                self.times = times
                return None
        replaced = None
        if len(self._timed) >= MAX_TIMED:
            replaced = min(self._timed, key=lambda times: times.used_ms)
            if replaced.used_ms >= max(0, unused_since_ms):
                if self._shared is None:
                    self._shared = ConnectionTimes("")
                self.times = self._shared
                return None
            self._timed = tuple(times for times in self._timed if times is not replaced)
        self.times = ConnectionTimes(connection_id)
        self._timed = (*self._timed, self.times)
        return None if replaced is None else replaced.connection_id

    def leave(self, connection_id: str) -> bool:
        """Removes an ended connection; True if another one has times."""
        self._timed = tuple(times for times in self._timed if times.connection_id != connection_id)
        return bool(self._timed)

    def has_ended_on(self, connection_id: str) -> bool:
        """True if the latest accepted push on that connection was terminating."""
        return any(times.is_terminated for times in self._timed if times.connection_id == connection_id)

    # Requests on the connection selected by `enter`

    @property
    def is_terminated(self) -> bool:
        """True if the latest accepted push on the connection was terminating."""
        return self.times.is_terminated

    def may_get(self, push_interval_ms: int, now_ms: int) -> bool:
        """True if a Get at `now_ms` is due."""
        if self.last_known_error in _RECOVERING:
            return True
        times = self.times
        last_get_ms = self._latest_get_ms if times.last_get_ms is None else times.last_get_ms
        last_push_ms = self._latest_push_ms if times.last_push_ms is None else times.last_push_ms
        return _has_passed(last_get_ms, push_interval_ms, now_ms) and _has_passed(
            last_push_ms, push_interval_ms, now_ms
        )

    def record_get(self, now_ms: int) -> None:
        """Records an answered Get; the next push is due at once, on any connection.

        Exception: a Get that resolves the error of an early push makes no push due, since a client could alternate both
        to evade its interval.
        """
        times = self.times
        self._latest_get_ms = times.last_get_ms = times.used_ms = now_ms
        if self._cure_opens or self.last_known_error not in _RECOVERING:
            self._get_unconsumed = True
        self.last_known_error = ErrorCode.NONE

    def record_early(self) -> None:
        """Records that the connection was throttled; from now on, requests on other connections do not count for it."""
        times = self.times
        if times.last_get_ms is None:
            times.last_get_ms = self._latest_get_ms
        if times.last_push_ms is None:
            times.last_push_ms = self._latest_push_ms

    def may_push(self, push_interval_ms: int, now_ms: int) -> bool:
        """True if a push at `now_ms` is due. For terminating pushes see `may_end_early`."""
        if self._get_unconsumed:
            return True
        last_push_ms = self.times.last_push_ms
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
        last_push_ms = self._latest_push_ms if self.times.last_push_ms is None else self.times.last_push_ms
        return last_push_ms is not None and now_ms - last_push_ms >= push_interval_ms

    def claim(self, now_ms: int, *, terminating: bool = False, is_due: bool = True) -> PushClaim:
        """Records an accepted push; a terminating one is the connection's last, unless `give_back` undoes it.

        If it is accepted before it is due, a Get that resolves its refusal makes no further push due.
        """
        times = self.times
        claim = PushClaim(times, now_ms, self._latest_push_ms, self._get_unconsumed, terminating)
        self._latest_push_ms = times.last_push_ms = times.used_ms = now_ms
        self._get_unconsumed = False
        self._cure_opens = is_due
        self.last_known_error = ErrorCode.NONE  # before it is in the log: a Get may follow in the same chunk of bytes
        if terminating:
            self._ended_ms = now_ms
            times.is_terminated = times is not self._shared
        return claim

    def pass_over(self, *, is_due: bool) -> None:
        """Records a push that is refused without consuming the client's interval."""
        self._cure_opens = is_due

    def give_back(self, claim: PushClaim) -> None:
        """Undoes `claim`, for a push that is refused without consuming the client's interval.

        If another push was accepted since then, its time stays. A push that followed a Get may be repeated at once.
        """
        times = claim.times
        if times.last_push_ms == claim.now_ms:
            times.last_push_ms = claim.last_push_ms
            times.used_ms = claim.used_ms
        if self._latest_push_ms == claim.now_ms:
            self._latest_push_ms = claim.latest_push_ms
        if claim.followed_get:
            self._get_unconsumed = True
        if claim.terminating:
            self._ended_ms = None
            times.is_terminated = False

    def reopen(self) -> None:
        """Resets the times after a change of the subscription: the next Get or push is due.

        A connection that has terminated stays terminated.
        """
        self._latest_get_ms = self._latest_push_ms = self._ended_ms = None
        for times in (*self._timed, self.times):
            times.last_get_ms = times.last_push_ms = None


def _has_passed(since_ms: int | None, interval_ms: int, now_ms: int) -> bool:
    return since_ms is None or now_ms - since_ms >= interval_ms

"""Pushes that the log does not take, and when it does: both kinds of flush."""

import zstandard
from golden.scenarios.connections import FSYNC, ids
from golden.scenarios.pushes import begin
from golden.scenarios.scenario import EVERY_SECOND, REFUSING, SMALL, scenario
from golden.session import Session
from support.clients.raw_client import ZSTD, uvarint

FULL = '"push.log.min.free.bytes" = 4611686018427387904\n'


def _what_a_full_log_costs(session: Session) -> None:
    subscription = begin(session)
    session.push("a", subscription, SMALL, "the first")
    session.push("a", subscription, SMALL, "at once again: nothing was lost by it")
    session.push("a", subscription, b"\x0f", "a bad one is refused as ever")
    session.push("a", subscription, SMALL, "and costs the interval")
    session.advance(1000)
    session.push("a", subscription, SMALL, "goodbye", terminating=True)
    session.push("a", subscription, SMALL, "goodbye again", terminating=True)
    session.get("a", subscription.client_instance_id)
    session.advance(40_000)


@scenario(REFUSING + FULL + EVERY_SECOND)
def no_room_on_the_disk(session: Session) -> None:
    """push.log.min.free.bytes is not there: every push is throttled, and its turn given back."""
    _what_a_full_log_costs(session)


@scenario(REFUSING + FULL + FSYNC + EVERY_SECOND)
def no_room_on_the_disk_fsync(session: Session) -> None:
    """The same with flush=fsync."""
    _what_a_full_log_costs(session)


def _failing_commits(session: Session) -> None:
    session.connect("a", "b")
    first, second = ids(session, "a", 1) + ids(session, "b", 1, 2)
    session.push("a", first, SMALL)
    session.do("lock_log")
    session.advance(1000)
    session.together([("a", session.push_frame(first, SMALL)), ("b", session.push_frame(second, SMALL))], "both fail")
    session.push("b", second, SMALL, "its turn was given back", terminating=True)
    session.do("unlock_log")
    session.push("a", first, SMALL)
    session.push("b", second, SMALL, terminating=True)
    session.push("b", second, SMALL, "over")
    session.advance(31_000)
    session.do("disk")


@scenario()
def commits_that_fail(session: Session) -> None:
    """Another process holds the segment's lock: answers, and what was given back."""
    _failing_commits(session)


@scenario(FSYNC + EVERY_SECOND)
def commits_that_fail_fsync(session: Session) -> None:
    """The same with flush=fsync."""
    _failing_commits(session)


@scenario(FSYNC + EVERY_SECOND)
def usual_life_fsync(session: Session) -> None:
    """Pushes with flush=fsync; those that come during a commit share the next one."""
    session.connect("a", "b", "c")
    first, second, third = ids(session, "a", 1) + ids(session, "b", 1, 2) + ids(session, "c", 1, 3)
    session.push("a", first, zstandard.compress(SMALL), compression_type=ZSTD)
    session.do("hold_threads")
    session.push("b", second, SMALL)
    session.push("c", third, SMALL)
    session.push("a", first, SMALL, "too early: answered at once")
    session.do("release_threads")
    session.advance(1000)
    session.together([("a", session.push_frame(first, SMALL)), ("b", session.push_frame(second, SMALL))])


@scenario('"push.log.ack.timeout.ms" = 500\n' + FSYNC + EVERY_SECOND)
def disk_that_does_not_answer(session: Session) -> None:
    """flush=fsync: after push.log.ack.timeout.ms a push is throttled; what is being written is logged all the same."""
    session.connect("a", "b", "c")
    first, second, third = ids(session, "a", 1) + ids(session, "b", 1, 2) + ids(session, "c", 1, 3)
    session.do("hold_threads")
    session.push("a", first, SMALL, "is being written")
    session.advance(200)
    session.push("b", second, SMALL, "waits for the next commit")
    session.advance(299)
    session.advance(1, "the first is given up")
    session.push("a", first, SMALL, "its turn was given back")
    session.advance(199)
    session.push("c", third, SMALL, terminating=True)
    session.advance(1, "the second is given up, and will not be written")
    session.advance(100)
    session.do("release_threads")
    session.push("a", first, SMALL)
    session.push("b", second, SMALL)
    session.push("c", third, SMALL)


@scenario('"push.log.ack.timeout.ms" = 5000\n' + FSYNC + EVERY_SECOND)
def more_waits_for_the_disk_than_may(session: Session) -> None:
    """flush=fsync: beyond 64 MiB that wait, a push is throttled at once; all others are logged."""
    session.connect("a")
    known = ids(session, "a", 70)
    size = 1 << 20
    payload = zstandard.compress(b"\xa2\x06" + uvarint(size - 6) + bytes(size - 6))
    session.do("hold_threads")
    for start in range(0, 70, 10):
        frames = [session.push_frame(each, payload, compression_type=ZSTD) for each in known[start : start + 10]]
        session.send("a", b"".join(frames), f"of 1 MiB each, from {start}")
    session.do("release_threads")


@scenario()
def more_in_an_iteration_than_may_wait(session: Session) -> None:
    """flush=os: beyond 64 MiB in one iteration, what waits is written first; all are logged."""
    session.connect("a")
    known = ids(session, "a", 70)
    size = 1 << 20
    payload = zstandard.compress(b"\xa2\x06" + uvarint(size - 6) + bytes(size - 6))
    session.send("a", b"".join(session.push_frame(each, payload, compression_type=ZSTD) for each in known))


@scenario()
def wall_clock_that_jumps(session: Session) -> None:
    """The wall clock jumps both ways: rows carry it, intervals do not see it."""
    subscription = begin(session)
    session.push("a", subscription, SMALL)
    session.do("jump_wall", ms=-86_400_000)
    session.push("a", subscription, SMALL, "too early")
    session.advance(1000)
    session.push("a", subscription, SMALL)
    session.do("jump_wall", ms=172_800_000)
    session.push("a", subscription, SMALL, "too early")
    session.advance(1000)
    session.push("a", subscription, SMALL)
    session.do("clients")


@scenario()
def encodings_in_the_log(session: Session) -> None:
    """A payload is stored as received where that is shorter, decompressed where not."""
    subscription = begin(session)
    for data in (SMALL[:3], SMALL, SMALL * 5):
        session.push("a", subscription, zstandard.compress(data), compression_type=ZSTD)
        session.advance(1000)
    session.do("disk")

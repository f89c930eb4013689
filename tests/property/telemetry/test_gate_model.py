"""The gate on any trace of Gets and pushes, against a model that keeps the whole history."""

from hypothesis import given
from hypothesis import strategies as st

from fleetgauge.base.errors import ErrorCode
from fleetgauge.telemetry.instances.gate import MAX_TIMED, ConnectionTimes, Gate

INTERVAL_MS = 100

steps = st.lists(
    st.tuples(st.sampled_from(["get", "push", "refused push", "unlogged push"]), st.integers(0, 130)), max_size=60
)


def push_is_due(history: list[tuple[str, int]], now_ms: int) -> bool:
    """Due after a Get that no push consumed, or a full interval after the last push."""
    pushes = [at for kind, at in history if kind == "push"]
    return not history or history[-1][0] == "get" or not pushes or now_ms - pushes[-1] >= INTERVAL_MS


def trace(gate: Gate) -> dict[str, object]:
    """Everything that a gate with one connection remembers."""
    own = {name: getattr(gate, name) for name in attributes(Gate) if name != "seat"}
    return own | {f"times.{name}": getattr(gate.times, name) for name in attributes(ConnectionTimes)}


def attributes(kind: type) -> tuple[str, ...]:
    """The attributes of a class with slots; compiled classes name them in another way."""
    return tuple(getattr(kind, "__mypyc_attrs__", None) or getattr(kind, "__slots__"))  # noqa: B009  of a class in general


@given(steps=steps)
def test_what_is_let_through_is_what_the_history_says(steps: list[tuple[str, int]]) -> None:
    gate, now_ms = Gate(), 0
    history: list[tuple[str, int]] = []
    for kind, wait_ms in steps:
        now_ms += wait_ms
        if kind == "get":
            due = all(now_ms - at >= INTERVAL_MS for _, at in history)
            assert gate.may_get(INTERVAL_MS, now_ms) == due
            if due:
                gate.record_get(now_ms)
                history.append(("get", now_ms))
            continue
        due = push_is_due(history, now_ms)
        assert gate.may_push(INTERVAL_MS, now_ms) == due
        if due:
            turn = gate.claim(now_ms, terminating=False)
            if kind == "unlogged push":
                gate.give_back(turn)
            else:
                history.append(("push", now_ms))


@given(steps=steps, terminating=st.booleans())
def test_giving_back_a_turn_leaves_no_trace(steps: list[tuple[str, int]], terminating: bool) -> None:
    gate, now_ms = Gate(), 0
    for kind, wait_ms in steps:
        now_ms += wait_ms
        if kind == "get":
            gate.record_get(now_ms)
        elif kind == "push":
            gate.claim(now_ms, terminating=False)
        before = trace(gate)
        gate.give_back(gate.claim(now_ms, terminating=terminating))
        assert trace(gate) == before


@given(steps=steps)
def test_between_two_gets_there_are_never_two_pushes_within_an_interval(steps: list[tuple[str, int]]) -> None:
    gate, now_ms = Gate(), 0
    pushes: list[int] = []
    for kind, wait_ms in steps:
        now_ms += wait_ms
        if kind == "get":
            if gate.may_get(INTERVAL_MS, now_ms):
                gate.record_get(now_ms)
                pushes = []
        elif gate.may_push(INTERVAL_MS, now_ms):
            assert all(now_ms - at >= INTERVAL_MS for at in pushes)
            gate.claim(now_ms, terminating=False)
            pushes.append(now_ms)


def test_an_error_that_a_get_cures_lets_the_get_through_once() -> None:
    gate = Gate()
    gate.record_get(0)
    for error in (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
        gate.last_known_error = error
        assert gate.may_get(INTERVAL_MS, 1)
        gate.record_get(1)
        assert not gate.may_get(INTERVAL_MS, 2)
    gate.last_known_error = ErrorCode.INVALID_RECORD
    assert not gate.may_get(INTERVAL_MS, 2)


@given(steps=st.lists(st.tuples(st.integers(0, 7), st.booleans(), st.booleans(), st.integers(0, 60)), max_size=120))
def test_any_number_of_connections_under_one_id_have_no_more_turns_than_seats(
    steps: list[tuple[int, bool, bool, int]],
) -> None:
    gate, now_ms = Gate(), 0
    pushes: list[int] = []
    for connection, gets, ends, wait_ms in steps:
        now_ms += wait_ms
        gate.enter(f"c{connection}", now_ms - 3 * INTERVAL_MS)
        due = (gate.may_get if gets else gate.may_push)(INTERVAL_MS, now_ms)
        if not due and not (ends and not gets and gate.may_end_early(INTERVAL_MS, now_ms)):
            gate.record_early()
        elif gets:
            gate.record_get(now_ms)
        elif not gate.is_terminated:
            gate.claim(now_ms, terminating=ends, is_due=due)
            pushes.append(now_ms)
    for at in pushes:
        # Every seat and the shared one once, once more after a Get that was due, and one terminating push of them all.
        assert sum(at <= other < at + INTERVAL_MS for other in pushes) <= 2 * (MAX_TIMED + 1) + 1


@given(steps=st.lists(st.tuples(st.integers(0, 7), st.booleans(), st.integers(0, 60)), max_size=120))
def test_there_is_one_unthrottled_terminating_push_per_interval_on_any_number_of_connections(
    steps: list[tuple[int, bool, int]],
) -> None:
    gate, now_ms = Gate(), 0
    unthrottled: list[int] = []
    for connection, terminating, wait_ms in steps:
        now_ms += wait_ms
        gate.enter(f"c{connection}", now_ms - 3 * INTERVAL_MS)
        due = gate.may_push(INTERVAL_MS, now_ms)
        if gate.is_terminated or not (due or (terminating and gate.may_end_early(INTERVAL_MS, now_ms))):
            continue
        gate.claim(now_ms, terminating=terminating, is_due=due)
        if not due:
            assert all(now_ms - at >= INTERVAL_MS for at in unthrottled)
            unthrottled.append(now_ms)


@given(
    haste=st.lists(
        st.tuples(st.integers(1, 7), st.booleans(), st.booleans(), st.integers(0, INTERVAL_MS)), min_size=1, max_size=60
    )
)
def test_a_connection_that_keeps_to_its_interval_is_let_through_whatever_others_do(
    haste: list[tuple[int, bool, bool, int]],
) -> None:
    gate, now_ms = Gate(), 0

    def keep_to_the_interval() -> None:
        gate.enter("its own", now_ms - 3 * INTERVAL_MS)
        assert not gate.is_terminated
        assert gate.may_push(INTERVAL_MS, now_ms)
        gate.claim(now_ms, terminating=False)

    keep_to_the_interval()
    for thief, gets, terminating, wait_ms in haste:
        now_ms += wait_ms
        gate.enter(f"thief {thief}", now_ms - 3 * INTERVAL_MS)
        if gets and gate.may_get(INTERVAL_MS, now_ms):
            gate.record_get(now_ms)
        due = gate.may_push(INTERVAL_MS, now_ms)
        if due or (terminating and gate.may_end_early(INTERVAL_MS, now_ms)):
            gate.claim(now_ms, terminating=terminating, is_due=due)
        now_ms += INTERVAL_MS - wait_ms
        keep_to_the_interval()


def test_nothing_that_others_do_makes_a_connection_a_terminated_one() -> None:
    """Five connections of a thief hold all seats and end; the client that comes after them is let through."""
    gate = Gate()
    for thief in range(6):
        gate.enter(f"thief {thief}", -3 * INTERVAL_MS)
        now_ms = thief * INTERVAL_MS
        assert gate.may_push(INTERVAL_MS, now_ms)
        gate.claim(now_ms, terminating=False)
        if gate.may_end_early(INTERVAL_MS, now_ms):
            gate.claim(now_ms, terminating=True, is_due=False)
    gate.enter("its own", -3 * INTERVAL_MS)
    assert not gate.is_terminated
    assert gate.may_push(INTERVAL_MS, now_ms + INTERVAL_MS)


def test_a_last_push_on_the_shared_seat_ends_no_other_connection_that_shares_it() -> None:
    gate = Gate()
    for number in range(MAX_TIMED):
        gate.enter(f"c{number}", 0)
        gate.claim(0, terminating=False)
    gate.enter("thief", 0)
    assert gate.may_push(INTERVAL_MS, INTERVAL_MS)
    gate.claim(INTERVAL_MS, terminating=True)
    gate.enter("its own", 0)
    assert not gate.is_terminated
    assert gate.may_push(INTERVAL_MS, 2 * INTERVAL_MS)


def test_the_push_after_a_get_is_due_on_whichever_connection() -> None:
    """As of Java clients, which Get on one connection and push on another, in the middle of the other's interval."""
    gate = Gate()
    for connection, now_ms in (("a", 0), ("b", INTERVAL_MS), ("a", INTERVAL_MS * 3 // 2)):
        gate.enter(connection, 0)
        assert gate.may_push(INTERVAL_MS, now_ms)
        gate.claim(now_ms, terminating=False)
    gate.enter("b", 0)
    assert gate.may_get(INTERVAL_MS, 2 * INTERVAL_MS)
    gate.record_get(2 * INTERVAL_MS)
    gate.enter("a", 0)
    assert gate.may_push(INTERVAL_MS, 2 * INTERVAL_MS)
    gate.claim(2 * INTERVAL_MS, terminating=False)
    assert not gate.may_push(INTERVAL_MS, 2 * INTERVAL_MS)


def test_a_last_push_that_is_not_due_opens_the_gate_to_no_other() -> None:
    gate = Gate()
    gate.enter("c", 0)
    gate.record_get(0)
    gate.claim(0, terminating=False)
    for now_ms in (1, 2):
        assert gate.may_end_early(INTERVAL_MS, now_ms)
        gate.give_back(gate.claim(now_ms, terminating=True, is_due=False))
        gate.last_known_error = ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        assert gate.may_get(INTERVAL_MS, now_ms)
        gate.record_get(now_ms)
        assert not gate.may_push(INTERVAL_MS, now_ms)
    gate.give_back(gate.claim(INTERVAL_MS, terminating=True))
    gate.last_known_error = ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    gate.record_get(INTERVAL_MS)
    assert gate.may_push(INTERVAL_MS, INTERVAL_MS)

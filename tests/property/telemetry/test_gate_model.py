"""The gate on any trace of Gets and pushes, against a model that keeps the whole history."""

from hypothesis import given
from hypothesis import strategies as st

from telemetry.gate import Gate
from wire.errors import ErrorCode

INTERVAL_MS = 100

steps = st.lists(
    st.tuples(st.sampled_from(["get", "push", "refused push", "unlogged push"]), st.integers(0, 130)), max_size=60
)


def push_is_due(history: list[tuple[str, int]], now_ms: int) -> bool:
    """Due after a Get that no push consumed, or a full interval after the last push."""
    pushes = [at for kind, at in history if kind == "push"]
    return not history or history[-1][0] == "get" or not pushes or now_ms - pushes[-1] >= INTERVAL_MS


@given(steps=steps)
def test_what_is_let_through_is_what_the_history_says(steps):
    gate, now_ms, history = Gate(), 0, []
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
            turn = gate.take_turn(now_ms, terminating=False)
            if kind == "push":
                history.append(("push", now_ms))
            elif kind == "refused push":
                gate.give_back_terminating(turn)
                history.append(("push", now_ms))
            else:
                gate.give_back(turn)


@given(steps=steps, terminating=st.booleans())
def test_giving_back_a_turn_leaves_no_trace(steps, terminating):
    gate, now_ms = Gate(), 0
    for kind, wait_ms in steps:
        now_ms += wait_ms
        if kind == "get":
            gate.record_get(now_ms)
        elif kind == "push":
            gate.take_turn(now_ms, terminating=False)
        before = {name: getattr(gate, name) for name in Gate.__slots__}
        gate.give_back(gate.take_turn(now_ms, terminating=terminating))
        assert {name: getattr(gate, name) for name in Gate.__slots__} == before


@given(steps=steps)
def test_between_two_gets_there_are_never_two_pushes_within_an_interval(steps):
    gate, now_ms, pushes = Gate(), 0, []
    for kind, wait_ms in steps:
        now_ms += wait_ms
        if kind == "get":
            if gate.may_get(INTERVAL_MS, now_ms):
                gate.record_get(now_ms)
                pushes = []
        elif gate.may_push(INTERVAL_MS, now_ms):
            assert all(now_ms - at >= INTERVAL_MS for at in pushes)
            gate.take_turn(now_ms, terminating=False)
            pushes.append(now_ms)


def test_an_error_that_a_get_cures_lets_the_get_through_once():
    gate = Gate()
    gate.record_get(0)
    for error in (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
        gate.last_known_error = error
        assert gate.may_get(INTERVAL_MS, 1)
        gate.record_get(1)
        assert not gate.may_get(INTERVAL_MS, 2)
    gate.last_known_error = ErrorCode.INVALID_RECORD
    assert not gate.may_get(INTERVAL_MS, 2)

"""The state while a node runs: what is read late, and what fails, does not keep later changes from being in force."""

import asyncio
import threading
from typing import Any

import pytest
from support.waiting import PATIENCE_S, wait_for_async

from fleetgauge.base.clock import MockTime
from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.node.off_loop import OffLoop
from fleetgauge.node.state.node_state import NodeState
from fleetgauge.node.state.store import RecordKind, Records, State

CREATED: dict[str, dict[str, dict[str, str]]] = {RecordKind.ACLS: {"a": {"is_set": "true"}}}


class Store:
    """Returns `news` once, after `held` is set."""

    problem = None

    def __init__(self) -> None:
        self.news: list[State | Exception] = []
        self.held = threading.Event()

    def read(self) -> State:
        return {}

    def read_if_changed(self) -> State | None:
        self.held.wait(PATIENCE_S)
        found = self.news.pop(0) if self.news else None
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        pass


class Acls:
    kind = RecordKind.ACLS

    def __init__(self) -> None:
        self.applied: list[Records] = []

    def usable(self, records: Records) -> Records:
        return records

    def apply(self, records: Records) -> None:
        self.applied.append(records)


def node(store: Any) -> tuple[NodeState, Acls]:
    state, acls = NodeState(store, MockTime()), Acls()
    state.add(acls)
    return state, acls


def test_what_is_read_after_the_time_of_its_call_is_in_force_with_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A store returns a change of others once: an ACL that was removed elsewhere must not stay in force here."""
    monkeypatch.setattr(NodeState, "within_s", 0.05)

    async def run() -> list[Records]:
        store = Store()
        store.news.append(CREATED)
        state, acls = node(store)
        for _ in range(2):  # the second is refused, since the first has not ended
            with pytest.raises(FleetgaugeError, match=r"longer than 0 s: check the disk .* brokers|has not ended"):
                await state.run(lambda transaction: transaction.refresh())
        store.held.set()
        await wait_for_async(lambda: state._off_loop.is_busy, "the reading to end", until=lambda busy: not busy)
        state._off_loop = OffLoop("reading", PATIENCE_S)
        await state.run(lambda transaction: transaction.refresh())
        return acls.applied

    assert asyncio.run(run()) == [{}, CREATED[RecordKind.ACLS]]


def test_a_review_that_fails_in_any_way_does_not_end_the_reviews_nor_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodeState, "review_s", 0.001)

    async def run() -> list[Records]:
        store = Store()
        store.held.set()
        store.news += [RuntimeError("a defect"), CREATED]
        state, acls = node(store)
        state.start()
        await wait_for_async(lambda: acls.applied, "a second state", until=lambda applied: len(applied) == 2)
        await state.stop()
        return acls.applied

    assert asyncio.run(run())[-1] == CREATED[RecordKind.ACLS]

"""The node's subscriptions while it runs: a state that hangs or is unusable, and what is in force."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support.waiting import PATIENCE_S, wait_for_async

from fleetgauge.base.clock import MockTime
from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.node.off_loop import OffLoop
from fleetgauge.node.state.client_metrics import ClientMetrics
from fleetgauge.node.state.node_state import NodeState, Transaction
from fleetgauge.node.state.store import StateStore
from fleetgauge.telemetry.subscriptions.overrides import Alteration
from fleetgauge.telemetry.subscriptions.resources import Subscriptions

FILE = {"S1": {"metrics": "a."}}


@pytest.fixture
def in_force() -> Subscriptions:
    return Subscriptions()


def properties(subscriptions: Subscriptions) -> dict[str, dict[str, str]]:
    return {name: dict(subscriptions.properties(name)) for name in subscriptions.names()}


class Made:
    """The resources of one worker over the node's state."""

    def __init__(self, in_force: Subscriptions, path: Path) -> None:
        self.state = NodeState(StateStore(path / "state.db"), MockTime())
        self.resources = ClientMetrics(in_force, FILE, 10)
        self.state.add(self.resources)

    def set_metrics(self, name: str, value: str) -> Callable[[Transaction], object]:
        return lambda transaction: self.resources.change(
            transaction, lambda old: old.altered(name, [Alteration("metrics", 0, value)])
        )


def test_a_change_is_in_force_when_it_is_answered_and_a_reread_file_leaves_it(
    in_force: Subscriptions, tmp_path: Path
) -> None:
    async def run() -> None:
        found = Made(in_force, tmp_path)
        assert properties(in_force) == FILE
        await found.state.run(found.set_metrics("S2", "b."))
        assert properties(in_force) == {**FILE, "S2": {"metrics": "b."}}
        found.resources.configure({"S2": {"metrics": "c.", "interval.ms": "1000"}}, 10)
        assert properties(in_force) == {"S2": {"metrics": "b.", "interval.ms": "1000"}}

    asyncio.run(run())


def test_changes_of_another_worker_are_taken_over(in_force: Subscriptions, tmp_path: Path) -> None:
    async def run() -> None:
        found, other = Made(in_force, tmp_path), Made(Subscriptions(), tmp_path)
        await other.state.run(other.set_metrics("S1", "b."))
        await found.state.run(lambda transaction: transaction.refresh())
        assert properties(in_force) == {"S1": {"metrics": "b."}}

    asyncio.run(run())


def test_a_state_that_hangs_fails_the_request_not_the_loop_and_its_change_is_taken_over_later(
    in_force: Subscriptions, tmp_path: Path
) -> None:
    async def run() -> None:
        found = Made(in_force, tmp_path)
        found.state._off_loop = OffLoop("changing", 0.05)
        goes_on = threading.Event()

        def hang(transaction: Transaction) -> None:
            goes_on.wait(PATIENCE_S)
            found.set_metrics("S2", "b.")(transaction)

        with pytest.raises(FleetgaugeError, match="took longer"):
            await found.state.run(hang)
        with pytest.raises(FleetgaugeError, match="has not ended yet"):
            await found.state.run(lambda transaction: transaction.refresh())
        assert properties(in_force) == FILE
        goes_on.set()
        await wait_for_async(lambda: found.state._off_loop.is_busy, "the change to end", until=lambda busy: not busy)
        found.state._off_loop = OffLoop("changing", PATIENCE_S)
        await found.state.run(lambda transaction: transaction.refresh())
        assert properties(in_force) == {**FILE, "S2": {"metrics": "b."}}

    asyncio.run(run())


def test_values_that_this_release_does_not_accept_are_left_out_and_kept_in_the_state(
    in_force: Subscriptions, tmp_path: Path
) -> None:
    strange = {"client_metrics": {"S3": {"new.key": "1"}, "S2": {"metrics": "b."}}}
    StateStore(tmp_path / "state.db").change(lambda _: strange)

    async def run() -> None:
        found = Made(in_force, tmp_path)
        assert properties(in_force) == {**FILE, "S2": {"metrics": "b."}}
        await found.state.run(found.set_metrics("S4", "d."))
        assert properties(in_force) == {**FILE, "S2": {"metrics": "b."}, "S4": {"metrics": "d."}}

    asyncio.run(run())
    assert StateStore(tmp_path / "state.db").read()["client_metrics"]["S3"] == {"new.key": "1"}

"""The node's subscriptions while it runs: a state that hangs or is unusable, and what the manager is given."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from base.clock import MockTime
from base.errors import FleetgaugeError
from fleetgauge.client_metrics import ClientMetrics, Transaction
from fleetgauge.off_loop import OffLoop
from fleetgauge.state_store import StateStore
from telemetry.subscriptions.overrides import Alteration, ToolChanges

FILE = {"S1": {"metrics": "a."}}


class Manager:
    """Takes what is in force."""

    def __init__(self) -> None:
        self.resources: Mapping[str, Mapping[str, str]] = {}

    def replace_subscriptions(self, resources: Mapping[str, Mapping[str, str]]) -> None:
        self.resources = resources


@pytest.fixture
def manager() -> Manager:
    return Manager()


def made(manager: Manager, path: Path) -> ClientMetrics:
    store = StateStore(path / "state.db")
    return ClientMetrics(manager, store, FILE, max_resources=10, time=MockTime())  # type: ignore[arg-type]


def set_metrics(name: str, value: str) -> Callable[[Transaction], object]:
    return lambda transaction: transaction.change(lambda old: old.altered(name, [Alteration("metrics", 0, value)]))


def test_a_change_is_in_force_when_it_is_answered_and_a_reread_file_leaves_it(manager: Manager, tmp_path: Path) -> None:
    async def run() -> None:
        found = made(manager, tmp_path)
        assert manager.resources == FILE
        await found.run(set_metrics("S2", "b."))
        assert manager.resources == {**FILE, "S2": {"metrics": "b."}}
        found.configure({"S2": {"metrics": "c.", "interval.ms": "1000"}}, 10)
        assert manager.resources == {"S2": {"metrics": "b.", "interval.ms": "1000"}}

    asyncio.run(run())


def test_changes_of_another_worker_are_taken_over(manager: Manager, tmp_path: Path) -> None:
    async def run() -> None:
        found, other = made(manager, tmp_path), made(Manager(), tmp_path)
        await other.run(set_metrics("S1", "b."))
        await found.run(lambda transaction: transaction.refresh())
        assert manager.resources == {"S1": {"metrics": "b."}}

    asyncio.run(run())


def test_a_state_that_hangs_fails_the_request_not_the_loop_and_its_change_is_taken_over_later(
    manager: Manager, tmp_path: Path
) -> None:
    async def run() -> None:
        found = made(manager, tmp_path)
        found._off_loop = OffLoop("changing", 0.05)
        goes_on = threading.Event()

        def hang(transaction: Transaction) -> None:
            goes_on.wait(60)
            set_metrics("S2", "b.")(transaction)

        with pytest.raises(FleetgaugeError, match="took longer"):
            await found.run(hang)
        with pytest.raises(FleetgaugeError, match="has not ended yet"):
            await found.run(lambda transaction: transaction.refresh())
        assert manager.resources == FILE
        goes_on.set()
        while not found._off_loop._latest.done():  # type: ignore[union-attr]
            await asyncio.sleep(0.01)
        await found.run(lambda transaction: transaction.refresh())
        assert manager.resources == {**FILE, "S2": {"metrics": "b."}}

    asyncio.run(run())


def test_values_that_this_release_does_not_accept_are_left_out_and_kept_in_the_state(
    manager: Manager, tmp_path: Path
) -> None:
    strange = ToolChanges(values={"S3": {"new.key": "1"}, "S2": {"metrics": "b."}})
    StateStore(tmp_path / "state.db").change(lambda _: strange)

    async def run() -> None:
        found = made(manager, tmp_path)
        assert manager.resources == {**FILE, "S2": {"metrics": "b."}}
        await found.run(set_metrics("S4", "d."))
        assert manager.resources == {**FILE, "S2": {"metrics": "b."}, "S4": {"metrics": "d."}}

    asyncio.run(run())
    assert StateStore(tmp_path / "state.db").read().values["S3"] == {"new.key": "1"}

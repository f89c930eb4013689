"""The inventory of several workers over their sockets: whole, each client once, and no part taken for the whole."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fleetgauge.base.clock import MockTime, SystemTime
from fleetgauge.base.principal import ANONYMOUS
from fleetgauge.node.processes.workers import questions
from fleetgauge.node.processes.workers.questions import WorkersSocket
from fleetgauge.node.status.node_inventory import NodeInventory
from fleetgauge.node.status.node_socket import NodeSocket, NotRunningError, Status, ask_async
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.telemetry.manager import ClientMetricsManager
from fleetgauge.telemetry.plugin import RequestContext
from fleetgauge.telemetry.push_record import PushIds, format_instance_id
from fleetgauge.telemetry.settings import ClientMetricsSettings

pytestmark = pytest.mark.integration

Rows = list[Sequence[Any]]


class Worker:
    """What a `WorkerSupervisor` shows of a worker, and the worker's own manager and socket, in this process."""

    def __init__(self, path: Path, clock: MockTime) -> None:
        self._clock = clock
        self.manager = ClientMetricsManager(
            ClientMetricsSettings(instance_metrics_max=1_000),
            node_id=1,
            cluster_id="c",
            metrics=Metrics(time=clock),
            push_ids=PushIds(),
            plugin=None,
        )
        self.manager.subscriptions.update("all", {"metrics": "*", "interval.ms": "60000"})
        self.socket = NodeSocket(
            path, dict, NodeInventory(self.manager.instances, clock, lambda *_: False), SystemTime()
        )
        self.node_socket = path
        self.pid = 1
        self.is_ready = True

    @property
    def last(self) -> Status:
        return {"telemetry": {"counters": self.manager.figures.counters()}}

    def sees(self, *instances: uuid.UUID, port: int = 1, client_id: str = "app") -> None:
        for instance in instances:
            context = RequestContext(
                listener_name="PLAINTEXT",
                security_protocol="PLAINTEXT",
                principal=ANONYMOUS,
                client_id=client_id,
                client_software_name="raw",
                client_software_version="1",
                client_address="127.0.0.1",
                client_port=port,
                connection_id=f"c{port}",
                correlation_id=1,
                request_type=72,
                request_version=0,
            )
            self.manager.process_get_telemetry_subscriptions(instance, context, now_ms=self._clock.hi_res_clock_ms())


@asynccontextmanager
async def two_workers(
    path: Path, clock: MockTime | None = None
) -> AsyncIterator[tuple[Worker, Worker, Callable[..., Awaitable[Rows]]]]:
    """Two workers on one clock, and a way to ask both at once."""
    shared = clock or MockTime()
    workers = Worker(path / "1.sock", shared), Worker(path / "2.sock", shared)

    async def status() -> Status:
        return {}

    joined = WorkersSocket(path / "node.sock", status, workers)  # type: ignore[arg-type]
    sockets = (workers[0].socket, workers[1].socket, joined)
    for each in sockets:
        await each.start()

    async def ask(what: str = "clients", **wanted: str) -> Rows:
        answers = ask_async(path / "node.sock", {"ask": what, "filter": wanted})
        return [row async for answer in answers for row in answer["rows"]]

    try:
        yield *workers, ask
    finally:
        for each in sockets:
            await each.stop()


@pytest.mark.parametrize("part_rows", [7, 50_000])
def test_every_client_is_listed_once_in_however_many_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_rows: int
) -> None:
    monkeypatch.setattr(questions, "PART_ROWS", part_rows)
    mine, both, other = ([uuid.uuid4() for _ in range(40)] for _ in range(3))

    async def run() -> None:
        async with two_workers(tmp_path) as (one, two, ask):
            one.sees(*mine, *both)
            two.sees(*both, *other, port=2)
            rows = await ask()
            assert sorted(row[0] for row in rows) == sorted(format_instance_id(each) for each in mine + both + other)
            assert {row[8] for row in rows if row[0] == format_instance_id(both[0])} == {2}
            own = await ask("own_metrics")
            assert sorted(row[0] for row in own) == sorted(row[0] for row in rows)

    asyncio.run(run())


def test_filters_hold_for_what_the_workers_know_together(tmp_path: Path) -> None:
    """A client that one worker finds refused and the other, later, new: it is new, and is listed as nothing else."""
    instance, clock = uuid.uuid4(), MockTime()

    async def run() -> None:
        async with two_workers(tmp_path, clock) as (one, two, ask):
            one.sees(instance, instance)  # the second Get comes too early
            one.sees(uuid.uuid4(), client_id="another")
            assert [row[9] for row in await ask(client_id="app")] == ["throttled"]
            clock.sleep(10)
            two.sees(instance)
            assert [row[9] for row in await ask(client_id="app")] == ["new"]
            assert await ask(state="throttled") == []
            assert len(await ask(state="new")) == 2

    asyncio.run(run())


def test_a_worker_that_has_ended_is_left_out_and_one_that_does_not_answer_fails_the_listing(tmp_path: Path) -> None:
    async def run() -> None:
        async with two_workers(tmp_path) as (one, two, ask):
            one.sees(uuid.uuid4())
            two.sees(uuid.uuid4())
            await two.socket.stop()
            with pytest.raises(NotRunningError):
                await ask()
            two.is_ready = False
            assert len(await ask()) == 1

    asyncio.run(run())


def test_a_question_that_is_none_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with two_workers(tmp_path) as (_, __, ask):
            with pytest.raises(ValueError, match="no such state"):
                await ask(state="happy")
            with pytest.raises(ValueError, match="no such filter"):
                await ask(colour="red")

    asyncio.run(run())

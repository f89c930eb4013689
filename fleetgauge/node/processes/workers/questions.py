"""The control socket of a node with several workers: a request is sent to each of them, and their answers are joined.

A listing has each client once, also where two workers have seen it. Rows that are joined are in memory at the same
time: so the instances are requested in parts, by their ids, of some ten thousand each.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

from fleetgauge.node.processes.workers.merge import merged_clients, merged_own_metrics
from fleetgauge.node.processes.workers.supervisor import WorkerSupervisor
from fleetgauge.node.status.node_socket import SLICE_ROWS, Answer, ControlSocket, NotRunningError, Status, ask_async
from fleetgauge.telemetry.instances.inventory import ClientFilter

PART_ROWS: Final = 50_000
"""About how many rows of all workers are joined at a time."""
MAX_LISTINGS: Final = 8
"""Listings of all workers at a time; fewer than the requests that a worker serves (`MAX_QUESTIONS`)."""
_LISTED: Final = ("instances", "instances_vanished", "instances_ended")
"""Counters of a worker that make up the rows of its inventory."""
_SIGN_OF_LIFE_S: Final = 1.0

Rows = list[Sequence[Any]]


class WorkersSocket(ControlSocket):
    """Serves what `NodeSocket` does, for all workers.

    Args:
        path: the socket.
        status: makes the status of the node.
        workers: the workers.
    """

    def __init__(
        self, path: Path, status: Callable[[], Awaitable[Status]], workers: Sequence[WorkerSupervisor]
    ) -> None:
        super().__init__(path)
        self._status = status
        self._workers = workers
        self._turns = asyncio.Semaphore(MAX_LISTINGS)

    async def _answers(self, question: dict[str, Any]) -> AsyncGenerator[Answer, None]:
        if question.get("ask") == "status":
            yield await self._status()
            return
        try:
            wanted = dict(question.get("filter", {}))
            states = ClientFilter.of(wanted).states
        except (ValueError, TypeError) as error:
            yield {"error": str(error)}
            return
        # An instance that two workers have seen has one state, which is known when their rows are joined.
        wanted.pop("state", None)
        async with self._turns:
            parts = self._parts()
            for number in range(parts):
                asked = {"ask": question.get("ask"), "filter": wanted, "part": [number, parts]}
                collecting = asyncio.create_task(self._collect(asked))
                try:
                    while not collecting.done():
                        await asyncio.wait([collecting], timeout=_SIGN_OF_LIFE_S)
                        yield {"rows": []}
                    rows = _joined(question, collecting.result(), states)
                except NotRunningError as error:
                    raise ConnectionError(str(error)) from error  # the answer has begun, and can only be aborted
                finally:
                    collecting.cancel()
                for at in range(0, len(rows), SLICE_ROWS):
                    yield {"rows": rows[at : at + SLICE_ROWS]}

    def _parts(self) -> int:
        counters = [worker.last["telemetry"]["counters"] for worker in self._workers if worker.last]
        return 1 + sum(int(each[name]) for each in counters for name in _LISTED) // PART_ROWS

    async def _collect(self, question: Mapping[str, Any]) -> Rows:
        each = await asyncio.gather(*(_rows_of(worker, question) for worker in self._workers if worker.is_ready))
        return [row for rows in each for row in rows]


def _joined(question: Mapping[str, Any], rows: Rows, states: frozenset[str]) -> Sequence[Sequence[Any]]:
    if question.get("ask") == "own_metrics":
        return merged_own_metrics(rows)
    return [row for row in merged_clients(rows) if not states or row.state in states]


async def _rows_of(worker: WorkerSupervisor, question: Mapping[str, Any]) -> Rows:
    """A worker's rows. One that ends meanwhile has no instances any more: they connect to the others.

    Raises:
        NotRunningError: it runs and does not answer: a part of the rows must not pass for the whole.
    """
    rows: Rows = []
    pid = worker.pid
    try:
        async with aclosing(ask_async(worker.node_socket, dict(question))) as answers:
            async for answer in answers:
                rows += answer["rows"]
    except NotRunningError:
        if worker.is_ready and worker.pid == pid:
            raise
        return []
    return rows

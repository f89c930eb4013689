"""One node with all real clients at it, so that one event meets them all."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.dataset as ds
from support.clients.telemetry_clients import VERSIONS, Client, ClientProcess, JavaProcess
from support.programs.node import Node
from support.waiting import ticking, wait_for

ALL_EACH_SECOND = '[client-metrics.all]\nmetrics = "*"\ninterval.ms = 1000\n'
ALL_IN_TEN_MINUTES = '[client-metrics.all]\nmetrics = "*"\ninterval.ms = 600000\n'
INTERVALS = 2
"""A client is back if it was acknowledged so often since the event."""
SILENT_S = 300.0
"""Java from 4.2 on says nothing for so long after a cut in mid-request [s]."""


class Landed(NamedTuple):
    """What is looked at of a record in the landing zone."""

    push_id: str
    client_instance_id: str
    push_interval_ms: int
    terminating: bool


class ClientFleet:
    """The node, its clients, and what of both is known from outside.

    Args:
        node: a node that serves.
        exporters: the part of its configuration that stays when the subscriptions change.
        landing: its landing zone.
    """

    def __init__(self, node: Node, exporters: str, landing: Path) -> None:
        self.node = node
        self.landing = landing
        self._exporters = exporters
        self._directory = node.directory / "clients"
        self._directory.mkdir()
        self._starts = 0
        self.processes: list[ClientProcess] = []

    @property
    def clients(self) -> list[Client]:
        return [client for process in self.processes for client in process.clients]

    def start_clients(self) -> None:
        """Starts all that do not run, and waits until every one was acknowledged."""
        self.processes = [process for process in self.processes if process.process.poll() is None]
        running = {(type(process), process.version) for process in self.processes}
        self._starts += 1
        directory = self._directory / str(self._starts)
        directory.mkdir()
        bootstrap = f"127.0.0.1:{self.node.port}"
        self.processes += [
            kind(version, bootstrap, directory) for kind, version in VERSIONS if (kind, version) not in running
        ]
        self.expect_pushes({})

    def subscribe(self, subscriptions: str) -> None:
        """Has the running node reread its configuration with these subscriptions."""
        self.node.reread(subscriptions + self._exporters)

    def acknowledged(self) -> dict[str, int]:
        """By client: pushes that it saw acknowledged."""
        return {client.name: client.acknowledged() for client in self.clients}

    def expect_pushes(
        self,
        before: dict[str, int],
        number: int = INTERVALS,
        within_s: float = 0.0,
        *,
        waits_for_the_silent: bool = True,
    ) -> None:
        """Waits until every client saw `number` pushes more than `before` acknowledged, and none says it is off.

        The wait begins when they are back, or after `within_s`, for which they may be silent by their own rules [s].
        A Java client that was cut in mid-request is silent for five minutes and has to be back after them, which may be
        left out; before 4.2 it is off for good, which no server can help (docs/operate/client-logs.md): of those it has
        to be the cause.
        """

        def missing() -> dict[str, Any]:
            self.expect_none_off()
            now, off = self.acknowledged(), self.off_by_a_cut()
            return {name: now[name] for name in now if now[name] < before.get(name, 0) + number and name not in off}

        def missing_but_for_the_silent() -> dict[str, Any]:
            cut = self.cut_in_mid_request()
            return {name: count for name, count in missing().items() if name not in cut}

        _wait_for_none(missing_but_for_the_silent, f"{number} acknowledged pushes of each", within_s)
        if waits_for_the_silent:
            _wait_for_none(missing, f"{number} acknowledged pushes of those that were cut, too", SILENT_S)

    def off_by_a_cut(self) -> list[str]:
        """Clients whose telemetry a cut in mid-request switches off for good: Java before 4.2 (KAFKA-19747)."""
        return [
            client.name
            for process in self.processes
            if isinstance(process, JavaProcess) and process.version.startswith("3.")
            for client in process.clients
            if client.was_cut_in_mid_request()
        ]

    def cut_in_mid_request(self) -> list[str]:
        """Clients that had a telemetry request unanswered when a connection ended."""
        return [client.name for client in self.clients if client.was_cut_in_mid_request()]

    def expect_none_off(self) -> None:
        """No client says that it switched its telemetry off, but for those that a cut in mid-request switches off."""
        excused = self.off_by_a_cut()
        off = {client.name: client.says_off() for client in self.clients if client.name not in excused}
        off = {name: lines[-2:] for name, lines in off.items() if lines}
        assert not off, f"clients switched their telemetry off: {off}\n{self.node.output()}"

    def expect_landed(self) -> dict[str, int]:
        """Every push that a client saw acknowledged is in the landing zone; returns the counts by client."""
        acknowledged = {client.instance_id(): (client.name, client.acknowledged()) for client in self.clients}

        def lost() -> dict[str, tuple[int, int]]:
            there = Counter({push.push_id: push.client_instance_id for push in self.landed()}.values())
            return {n: (there[i], count) for i, (n, count) in acknowledged.items() if there[i] < count}

        _wait_for_none(lost, "acknowledged pushes in the landing zone (there, acknowledged)")
        return dict(acknowledged.values())

    def landed(self) -> list[Landed]:
        """Every record in the landing zone by now; without the metrics, since this is read again and again."""
        files = [str(path) for path in self.landing.glob("date=*/hour=*/*.parquet")]  # finished ones
        if not files:
            return []
        columns = ds.dataset(files).to_table(columns=list(Landed._fields)).to_pydict()
        return [Landed(*row) for row in zip(*columns.values(), strict=True)]

    def refusals(self) -> Counter[str]:
        """By error code: refused requests since the node's start."""
        refusals = self.node.status()["telemetry"]["refusals"]
        return Counter({code: sum(reasons.values()) for code, reasons in refusals.items()})

    def close_clients(self) -> None:
        """Has all closed as applications close them."""
        for process in self.processes:
            process.ask_to_close()
        for process in self.processes:
            process.wait()

    def kill(self) -> None:
        for process in self.processes:
            process.kill()


def _wait_for_none(missing: Callable[[], dict[str, Any]], what: str, silent_s: float = 0.0) -> None:
    """Waits until nothing is missing; what clients are silent for by their own rules [s] is no part of the patience."""
    if all(missing() for _ in ticking(silent_s, every_s=1.0)):
        wait_for(missing, what, until=lambda found: not found)

"""Three real brokers, healthy real clients at work, and the judge: what faults are made on, and what is then found."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from integration.reality.pace import QUICK, Pace
from integration.reality.verdict_pipeline import VerdictPipeline
from support.brokers.kafka_cluster import NEAR, KafkaCluster
from support.clients.working_clients import LIBRARIES, WorkingClients
from support.waiting import pause

TOPIC = "orders"


class Stage:
    """A cluster with its healthy clients, and what is judged of them.

    Attributes:
        cluster: the brokers.
        pipeline: from their push log to verdicts.
        directory: for logs.
        pace: how long everything takes.
        clients: by library the process of its healthy clients, and of those that need none of their own.
    """

    def __init__(self, directory: Path, pace: Pace = QUICK, python: Path = Path(sys.executable)) -> None:
        self.directory = directory
        self.pace = pace
        self._python = python
        self.cluster = KafkaCluster(directory)
        self._stack = ExitStack()
        self._processes: list[WorkingClients] = []
        self.clients: dict[str, WorkingClients] = {}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.cluster)
            self.cluster.nodes[1].subscribe(interval_ms=self.pace.push_interval_ms)
            self.cluster.create_topics({TOPIC: 6})
            self._stack = stack
            self.pipeline = stack.enter_context(
                VerdictPipeline(self.directory, self.cluster.bootstrap, self.pace, self._python)
            )
            for library in LIBRARIES:
                name = library.replace(" ", "-")
                self.clients[library] = self.start(library)
                for number in (1, 2):
                    self.clients[library].producer(f"{name}-producer-{number}", TOPIC)
                self.clients[library].consumer(f"{name}-consumer", TOPIC)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, library: str, environment: dict[str, str] | None = None) -> WorkingClients:
        """A process of its own for clients of a library; killed at the end, if it still runs."""
        log = self.directory / f"clients-{len(self._processes)}.log"
        found = WorkingClients(
            library, self.cluster.through(NEAR), log, environment, with_defaults=self.pace.is_default
        )
        self._stack.callback(found.kill)
        self._processes.append(found)
        return found

    def wait_for_history(self) -> None:
        """Waits until all clients were seen for long enough to be compared with: JVMs may take a while to start."""
        pause(2 * self.pace.push_interval_ms / 1_000, "first pushes come within one and a half intervals")
        self.pipeline.wait_for_pushes({client_id for each in self._processes for client_id in each.client_ids})
        pause(self.pace.history_s, "the windows that later ones are compared with")

    def topic(self, name: str, partitions: int = 3, **config: str) -> str:
        """A topic of its own for a fault."""
        self.cluster.create_topics({name: partitions}, **config)
        return name

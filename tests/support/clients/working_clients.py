"""Processes with real producers and consumers at work, of every library alike, and what can be done to them."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from support.brokers.kafka_broker import with_the_test_run
from support.clients.java_clients import java_program
from support.clients.telemetry_clients import franz_go
from support.preload import preload
from support.waiting import PATIENCE_S, follow, unfollow

JAVA_3, JAVA_4, LIBRDKAFKA = "java 3.9.2", "java 4.4.0", "librdkafka"
LIBRARIES = (JAVA_3, JAVA_4, LIBRDKAFKA)
FRANZ_GO = "franz-go 1.22.2"
"""Takes few settings: see tests/kafka/franz-go/worker."""

OF_JAVA = {"metrics.sample.window.ms": "1000"}
"""Java's averages are over 30 to 60 s, librdkafka's over a push interval: with short windows these are short, too."""


class WorkingClients:
    """A process of one library, told by lines what to do: see tests/kafka/WorkingClients.java.

    Args:
        library: one of LIBRARIES.
        bootstrap: servers.
        log: where what it writes goes.
        environment: beside that of the tests.
        with_defaults: clients have the settings of their library; else short ones, for short windows.

    Attributes:
        client_ids: of the clients that were started.
    """

    def __init__(
        self,
        library: str,
        bootstrap: str,
        log: Path,
        environment: Mapping[str, str] | None = None,
        *,
        with_defaults: bool = False,
    ) -> None:
        self.library = library
        self._with_defaults = with_defaults
        self.client_ids: set[str] = set()
        self._bootstrap = bootstrap
        self._log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*with_the_test_run(), *_command(library)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {})},
                text=True,
            )
        follow(log)

    def producer(self, client_id: str, topic: str, per_s: int = 4, size: int = 200, **settings: str) -> Self:
        """Starts a producer that sends so many records of this size [B] per second."""
        self.send(client_id, per_s, size)
        return self._start("producer", client_id, topic, settings)

    def consumer(self, client_id: str, topic: str, group: str = "", work_ms: int = 0, **settings: str) -> Self:
        """Starts a consumer, of a group that is named like its client id if none is given."""
        own = {"group.id": group or client_id, "auto.offset.reset": "latest"}
        if not self._with_defaults:
            own["max.poll.interval.ms"] = "10000"
            if settings.get("group.protocol") != "consumer":  # by which the broker sets the session's length
                own["session.timeout.ms"] = "6000"
        self.work(client_id, work_ms)
        return self._start("consumer", client_id, topic, {**own, **settings})

    def send(self, client_id: str, per_s: int, size: int) -> Self:
        """Has a producer send so many records of this size [B] per second from now on."""
        return self._tell("send", client_id, str(per_s), str(size))

    def work(self, client_id: str, work_ms: int) -> Self:
        """Has a consumer's application take so long for what each poll returned."""
        return self._tell("work", client_id, str(work_ms))

    def pause(self, client_id: str) -> Self:
        """Has a consumer pause the partitions that it is assigned from now on."""
        return self._tell("pause", client_id)

    def signal(self, number: signal.Signals) -> None:
        """Sends the process a signal."""
        self.process.send_signal(number)

    def close(self) -> None:
        """Has all clients closed as an application closes them."""
        assert self.process.stdin is not None
        unfollow(self._log)
        self.process.stdin.close()
        assert self.process.wait(PATIENCE_S) == 0, self._log.read_text(errors="replace")[-4000:]

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        unfollow(self._log)
        self.process.kill()
        self.process.wait()
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()

    def _start(self, role: str, client_id: str, topic: str, settings: Mapping[str, str]) -> Self:
        self.client_ids.add(client_id)
        own = OF_JAVA if self.library.startswith("java ") and not self._with_defaults else {}
        every = {"bootstrap.servers": self._bootstrap, "client.id": client_id, **own, **settings}
        return self._tell(role, client_id, topic, *(f"{key}={value}" for key, value in every.items()))

    def _tell(self, *words: str) -> Self:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        return self


def _command(library: str) -> list[str]:
    if library == LIBRDKAFKA:
        return [sys.executable, "-u", str(Path(__file__).with_name("rdkafka_workers.py"))]
    if library == FRANZ_GO:
        return [str(franz_go(library.removeprefix("franz-go "), "worker"))]
    return java_program(library.removeprefix("java "), "WorkingClients")


def shifted_clock(seconds: int) -> dict[str, str]:
    """The environment of a process whose wall clock is so far ahead."""
    return preload("shifted_clock", SHIFTED_CLOCK_S=str(seconds))

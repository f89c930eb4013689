"""Kafka's own command line tools of any version, run in one JVM (`tests/kafka/AdminTools.java`)."""

import re
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, TypeVar, cast

from support.brokers.kafka_jars import kafka_jars
from support.clients.java_clients import compiled_java, java_command
from support.waiting import PATIENCE_S, WaitedInVainError, wait_for

_CLASSES = {
    "cm": "org.apache.kafka.tools.ClientMetricsCommand",
    "cc": "kafka.admin.ConfigCommand",
    "acl": "org.apache.kafka.tools.AclCommand",
}
"""kafka-client-metrics.sh, kafka-configs.sh, kafka-acls.sh."""
_OF_OLDER = {"3.9.2": {"acl": "kafka.admin.AclCommand"}}
_LOGGED = re.compile(r"^\d{4}-\d\d-\d\dT\S+ \S+ (?=[A-Z]+ )|^\s+at |^\s*\.\.\. \d+ more|^log4j:")
"""Times and stack traces in what a tool logs."""

T = TypeVar("T")


@dataclass(frozen=True)
class Printed:
    """What a command printed, without stack traces and log lines, and its exit code."""

    exit_code: int
    lines: tuple[str, ...]


def agreed(at_broker: Callable[[], T], here: T, *, may_ask_again: Callable[[T], bool]) -> T:
    """A broker's answer; asked for again while it differs from ours and may be: a broker answers a change before its
    own lists and descriptions show it. The last one, if it differs to the end.
    """
    try:
        return wait_for(at_broker, f"{here}", until=lambda there: there == here or not may_ask_again(there))
    except WaitedInVainError as error:
        return cast(T, error.seen)


class AdminTools:
    """One JVM with the tools of a version; to be entered."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._classes = {**_CLASSES, **_OF_OLDER.get(version, {})}

    def __enter__(self) -> Self:
        jars = kafka_jars(self._version)
        self._process = subprocess.Popen(
            java_command("AdminTools", compiled_java("AdminTools", jars), jars),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def run(self, port: int, command: str, *arguments: str) -> Printed:
        """Runs `cm` or `cc` against a broker or node on this machine."""
        bootstrap = f"127.0.0.1:{port}"
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        words = [self._classes[command], "--bootstrap-server", bootstrap, *arguments]
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()
        watchdog = threading.Timer(PATIENCE_S, self._process.kill)
        watchdog.start()
        lines: list[str] = []
        for line in iter(self._process.stdout.readline, ""):
            if line.startswith("exit "):
                watchdog.cancel()
                return Printed(int(line.split()[1]), tuple(lines))
            if not _LOGGED.search(line[2:]):
                lines.append(line[2:].rstrip("\n").replace(bootstrap, "BOOTSTRAP"))
        raise AssertionError(f"the tool's JVM ended at {words}: {lines}")

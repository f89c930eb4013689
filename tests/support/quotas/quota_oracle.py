"""Kafka's own quota classes as an oracle: commands go in, answers come out, and are held against ours.

`tests/kafka/QuotaOracle.java` says what a command is. A scenario is worked off here first, on our classes, which gives
the commands with the answers that are expected; so it may depend on what ours answered.
"""

import contextlib
import math
import subprocess
import threading
from dataclasses import dataclass, field
from typing import Self

from support.brokers.kafka_jars import kafka_jars
from support.clients.java_clients import compiled_java, java_command
from support.waiting import PATIENCE_S

VERSION = "4.3.1"
START_MS = 1_750_000_000_000
_INT32_MAX = 2**31 - 1


@dataclass
class Script:
    """Commands of one scenario with the answers that our classes gave."""

    name: str
    commands: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def say(self, command: str, answer: object = "ok") -> None:
        self.commands.append(command)
        self.expected.append(str(answer))

    def differences(self, answers: list[str]) -> list[str]:
        """The commands on which Kafka answered something else."""
        told = zip(self.commands, self.expected, answers, strict=True)
        return [
            f"{self.name}, line {number}: {command}\n  ours   {expected}\n  Kafka's {answer}"
            for number, (command, expected, answer) in enumerate(told)
            if not same(expected, answer)
        ]


def same(expected: str, answer: str) -> bool:
    """Words are the same, and numbers equal within 1e-9 relative."""
    ours, kafkas = expected.split(" "), answer.split(" ")
    return len(ours) == len(kafkas) and all(map(_same_word, ours, kafkas))


def _same_word(ours: str, kafkas: str) -> bool:
    if ours == kafkas:
        return True
    try:
        our_number, kafkas_number = float(ours), float(kafkas)
    except ValueError:
        return False
    if math.isnan(our_number) and math.isnan(kafkas_number):
        return True
    return math.isclose(our_number, kafkas_number, rel_tol=1e-9, abs_tol=1e-12)


def limited_wait(wait_ms: int) -> str:
    """A throttle time; ours ends at the largest that fits the wire (2^31 - 1), where Kafka's long goes on."""
    return "forever" if wait_ms >= _INT32_MAX else str(wait_ms)


class QuotaOracle:
    """One JVM with Kafka's classes, for as many scripts as there are."""

    def __enter__(self) -> Self:
        jars = kafka_jars(VERSION)
        self._process = subprocess.Popen(
            java_command("QuotaOracle", compiled_java("QuotaOracle", jars), jars),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def differences(self, scripts: list[Script]) -> list[str]:
        """What Kafka answers otherwise than our classes did."""
        return [each for script in scripts for each in script.differences(self._answers(script))]

    def _answers(self, script: Script) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(PATIENCE_S, self._process.kill)
        watchdog.start()
        writer = threading.Thread(target=self._write, args=("\n".join(script.commands) + "\n",))
        writer.start()
        answers = [self._process.stdout.readline() for _ in script.commands]
        writer.join()
        watchdog.cancel()
        assert answers[-1].endswith("\n"), f"{script.name}: the JVM ended after {sum(map(bool, answers))} answers"
        return [_bounded(answer.rstrip("\n")) for answer in answers]

    def _write(self, text: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # then an answer is missing, and says so
            self._process.stdin.write(text)
            self._process.stdin.flush()


def _bounded(answer: str) -> str:
    """The throttle time of a violation as `limited_wait` writes it."""
    words = answer.split(" ")
    if words[0] == "violation" and words[-1] != "-":
        words[-1] = limited_wait(int(words[-1]))
    return " ".join(words)

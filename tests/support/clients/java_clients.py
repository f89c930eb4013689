"""Real Java clients of any kafka-clients version, each in a process of its own: a producer and a consumer."""

import subprocess
import threading
from pathlib import Path

from support.brokers.kafka_jars import fetched
from support.built import BUILD_WITHIN_S, ROOT, built

SOURCES = ROOT / "tests" / "kafka"


def clients_jars(version: str) -> Path:
    """The folder with kafka-clients of that version and a log binding."""
    return fetched(f"kafka-clients-{version}", "clients", f"-Dclients.version={version}")


def streams_command(version: str, program: str) -> list[str]:
    """The words of a command that runs `tests/kafka/<program>.java` with kafka-streams of that version."""
    jars = fetched(f"kafka-streams-{version}", "streams", f"-Dclients.version={version}")
    return java_command(program, compiled_java(program, jars), jars)


def java_program(version: str, program: str, jars: Path | None = None) -> list[str]:
    """The words of a command that runs `tests/kafka/<program>.java` with kafka-clients of that version.

    Args:
        version: of kafka-clients.
        program: the class.
        jars: the folder to run with, in place of the version's own.
    """
    classes = compiled_java(program, clients_jars(version))
    return java_command(program, classes, jars or clients_jars(version))


def compiled_java(program: str, jars: Path, sources: Path = SOURCES) -> Path:
    """The folder with the classes of `<sources>/<program>.java`, compiled beside these jars."""
    source = sources / f"{program}.java"

    def compile_it(classes: Path) -> None:
        command = ["javac", "-nowarn", "-d", str(classes), "-cp", f"{jars}/*", str(source)]
        subprocess.run(command, check=True, timeout=BUILD_WITHIN_S)

    return built(f"classes-{program}", compile_it, source, jars.name)


def java_command(program: str, classes: Path, jars: Path) -> list[str]:
    """The words of a command that runs a compiled program with these jars."""
    return ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{jars}/*", program]


class JavaClients:
    """A producer and a consumer of one version; their own log goes to `<directory>/<prefix>.log`."""

    def __init__(self, version: str, bootstrap: str, topic: str, directory: Path) -> None:
        self.version = version
        self.prefix = f"java-{version}"
        self.log = directory / f"{self.prefix}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *java_program(version, "PushingClient"),
                    *(bootstrap, self.prefix, topic),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def instance_ids(self, within_s: float = 240.0) -> dict[str, str]:
        """Client id to the instance id that the client itself says it has; waits until both are known."""
        assert self.process.stdout is not None
        found = {}
        watchdog = threading.Timer(within_s, self.kill)
        watchdog.start()
        for _ in range(2):
            words = self.process.stdout.readline().split()
            assert len(words) == 2, f"{self.prefix} ended early: {self.log.read_text()[-4000:]}"
            found[f"{self.prefix}-{words[0]}"] = words[1]
        watchdog.cancel()
        return found

    def close(self) -> None:
        """Has both closed as an application closes them, and waits for it."""
        output, _ = self.process.communicate("end\n", timeout=180)
        assert output.strip() == "closed", self.log.read_text()[-4000:]

    def kill(self) -> None:
        """Ends the process, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

"""Real Java clients of any kafka-clients version, each in a process of its own: a producer and a consumer."""

import shutil
import subprocess
import threading
from pathlib import Path

from support.kafka_jars import ROOT, SETUP, fetched

SOURCE = ROOT / "tests" / "kafka" / "PushingClient.java"


def clients_jars(version: str) -> Path:
    """The folder with kafka-clients of that version and a log binding."""
    return fetched(SETUP / f"kafka-clients-{version}", "clients", f"-Dclients.version={version}")


class JavaClients:
    """A producer and a consumer of one version; their own log goes to `<directory>/<prefix>.log`."""

    def __init__(self, version: str, bootstrap: str, topic: str, directory: Path) -> None:
        self.version = version
        self.prefix = f"java-{version}"
        self.log = directory / f"{self.prefix}.log"
        classes = self._compiled(version)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *("java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{clients_jars(version)}/*"),
                    *("PushingClient", bootstrap, self.prefix, topic),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def instance_ids(self, within_s: float = 90.0) -> dict[str, str]:
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
        output, _ = self.process.communicate("end\n", timeout=60)
        assert output.strip() == "closed", self.log.read_text()[-4000:]

    def kill(self) -> None:
        """Ends the process, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    @staticmethod
    def _compiled(version: str) -> Path:
        classes = SETUP / f"kafka-clients-{version}-classes"
        if not (classes / "PushingClient.class").exists() or (
            (classes / "PushingClient.class").stat().st_mtime < SOURCE.stat().st_mtime
        ):
            shutil.rmtree(classes, ignore_errors=True)
            subprocess.run(
                ["javac", "-d", str(classes), "-cp", f"{clients_jars(version)}/*", str(SOURCE)], check=True, timeout=120
            )
        return classes

"""Apache Kafka, the broker plugin and the filter for Kroxylicious as jars: fetched from Maven Central, and built, once.

What is fetched is kept under `.setup/`. `python tests/support/kafka_jars.py` fetches and builds everything that the
tests of the plugin need.
"""

import contextlib
import fcntl
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SETUP = ROOT / ".setup"
VERSIONS = ("4.3.1", "3.9.2")
BRIDGE = ROOT / "bridge"
MAVEN_WITHIN_S = 900.0


class MavenMissingError(RuntimeError):
    """Maven is not installed."""

    def __str__(self) -> str:
        return "Maven is needed to get Apache Kafka and to build the broker plugin (Debian: apt-get install maven)"


def kafka_jars(version: str) -> Path:
    """The folder with the jars of broker and tools of a Kafka version that `tests/kafka` has a pom for."""
    return fetched(SETUP / f"kafka-{version}", version)


def fetched(target: Path, pom: str, *arguments: str) -> Path:
    """The folder `target` with the run-time jars of `tests/kafka/pom-<pom>.xml`, fetched once."""
    done = target / ".complete"
    with alone(target.name):
        if not done.exists():
            shutil.rmtree(target, ignore_errors=True)
            file = ROOT / "tests" / "kafka" / f"pom-{pom}.xml"
            copy = ("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={target}")
            _maven(file, *copy, *arguments)
            done.touch()
    return target


def bridge_jar() -> Path:
    """The jar of the broker plugin, built anew (with its own tests) when a source is newer."""
    return _built(BRIDGE)


def kroxylicious_filter_jar() -> Path:
    """The jar of the filter for Kroxylicious, built likewise."""
    return _built(BRIDGE / "kroxylicious")


def _built(project: Path) -> Path:
    with alone(project.name):
        sources = [project / "pom.xml", *project.glob("src/**/*.*")]
        jar = next(iter(project.glob("target/fleetgauge-*.jar")), None)
        if jar is None or jar.stat().st_mtime < max(source.stat().st_mtime for source in sources):
            _maven(project / "pom.xml", "clean", "package")
            jar = next(project.glob("target/fleetgauge-*.jar"))
    return jar


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """One process at a time: test runs share the folder."""
    SETUP.mkdir(exist_ok=True)
    with (SETUP / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _maven(pom: Path, *arguments: str) -> None:
    if shutil.which("mvn") is None:
        raise MavenMissingError
    subprocess.run(
        ["mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(pom), *arguments], check=True, timeout=MAVEN_WITHIN_S
    )


if __name__ == "__main__":
    for wanted in sys.argv[1:] or VERSIONS:
        print(kafka_jars(wanted))
    print(bridge_jar())

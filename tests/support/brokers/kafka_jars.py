"""Apache Kafka, the broker plugin and the filter for Kroxylicious as jars: fetched from Maven Central, and built, once.

`python tests/support/brokers/kafka_jars.py` fetches and builds everything that the tests of the plugin need.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from support.built import BUILD_WITHIN_S, ROOT, built

VERSIONS = ("4.3.1", "3.9.2")
BRIDGE = ROOT / "bridge"


class MavenMissingError(RuntimeError):
    """Maven is not installed."""

    def __str__(self) -> str:
        return "Maven is needed to get Apache Kafka and to build the broker plugin (Debian: apt-get install maven)"


def kafka_jars(version: str) -> Path:
    """The folder with the jars of broker and tools of a Kafka version that `tests/kafka` has a pom for."""
    return fetched(f"kafka-{version}", version)


def fetched(name: str, pom: str, *arguments: str) -> Path:
    """The folder `name` with the run-time jars of `tests/kafka/pom-<pom>.xml`."""
    file = ROOT / "tests" / "kafka" / f"pom-{pom}.xml"

    def fetch(target: Path) -> None:
        _maven(
            file, "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={target}", *arguments
        )

    return built(name, fetch, file, *arguments)


def bridge_jar() -> Path:
    """The jar of the broker plugin, built with its own tests."""
    return _packaged(BRIDGE)


def kroxylicious_filter_jar() -> Path:
    """The jar of the filter for Kroxylicious, built likewise."""
    return _packaged(BRIDGE / "kroxylicious")


def _packaged(project: Path) -> Path:
    def package(target: Path) -> None:
        shutil.copy(project / "pom.xml", target)
        shutil.copytree(project / "src", target / "src")
        _maven(target / "pom.xml", "package")

    (jar,) = built(project.name, package, project / "pom.xml", project / "src").glob("target/fleetgauge-*.jar")
    return jar


def _maven(pom: Path, *arguments: str) -> None:
    if shutil.which("mvn") is None:
        raise MavenMissingError
    subprocess.run(
        ["mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(pom), *arguments], check=True, timeout=BUILD_WITHIN_S
    )


if __name__ == "__main__":
    for wanted in sys.argv[1:] or VERSIONS:
        print(kafka_jars(wanted))
    print(bridge_jar())

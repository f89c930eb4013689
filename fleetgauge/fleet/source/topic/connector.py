"""Spark's Kafka connector: four jars beyond PySpark's own, fetched from Maven Central once, or given by an operator."""

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

from fleetgauge.fleet.errors import JarError

_COMES_WITH_SPARK: Final = (
    "at.yawk.lz4:lz4-java",
    "com.google.code.findbugs:jsr305",
    "org.antlr:antlr4-runtime",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.lz4:lz4-java",
    "org.scala-lang.modules:scala-parallel-collections_2.13",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)
_DOES_NOTHING: Final = (
    "org.apache.hadoop.util.VersionInfo"  # spark-submit fetches jars for a program; this one ends at once
)
_SAYING_MOST: Final = ("Server access error", r"Host \S+ not found", "unresolved dependency", "Exception")
"""Patterns of log lines that explain a failed download, most specific first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """A release of the connector.

    Attributes:
        version: Spark's.
        sha256: digests of the files that are fetched, by the names that Ivy gives them.
    """

    version: str
    sha256: Mapping[str, str]

    @property
    def coordinates(self) -> str:
        """Maven coordinates. Spark 4 uses Scala 2.13 only."""
        return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{self.version}"


def _minor(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


def _connectors(digests: str) -> dict[tuple[int, ...], Connector]:
    """Connectors by minor version of Spark, from lines of `sha256sum`, in which names lack `org.apache.`."""
    connectors = {}
    for release in digests.split("# ")[1:]:
        version, *lines = release.splitlines()
        sha256 = {f"org.apache.{name}": digest for digest, name in map(str.split, lines)}
        connectors[_minor(version)] = Connector(version=version, sha256=sha256)
    return connectors


_SHA256: Final = """
# 4.0.0
6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b  commons_commons-pool2-2.12.0.jar
15c1e137f2c2c94398e27abc4060a03b6bde10bf9fac15e8f70c02320b202f18  kafka_kafka-clients-3.9.0.jar
33a3b8b04df4a2e43c9d5bf8ca5972936a1ac662f2714e014d00ef6f27468bf3  spark_spark-sql-kafka-0-10_2.13-4.0.0.jar
f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767  spark_spark-token-provider-kafka-0-10_2.13-4.0.0.jar
# 4.1.1
5273c8bc8c0dca2211175c0d27efbd7228efae99689aac001a8e1ef8e872e9ef  commons_commons-pool2-2.12.1.jar
7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9  kafka_kafka-clients-3.9.1.jar
9c1ce986f548e6b1dcb0e2dfe2f253a0bc58f2232a32a0c9c6c674dd25a8570c  spark_spark-sql-kafka-0-10_2.13-4.1.1.jar
e510adc37b03d01d0a190d0dab472b5538e05eaa77454f7e9477156d7a6820ae  spark_spark-token-provider-kafka-0-10_2.13-4.1.1.jar
# 4.2.0
f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f  commons_commons-pool2-2.13.1.jar
014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8  kafka_kafka-clients-3.9.2.jar
64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705  spark_spark-sql-kafka-0-10_2.13-4.2.0.jar
641c7947afc8aa1189e433b7c2d305293993c8691bc1c2062d6d4f513b12518c  spark_spark-token-provider-kafka-0-10_2.13-4.2.0.jar
"""

CONNECTORS: Final = _connectors(_SHA256)
"""The release of the connector that is fetched for each minor version of Spark, and for later ones the last.

Within a minor version, and from 4.2 to 4.3, the connector and Spark fit together whichever their patch releases are:
`tests/integration/fleet/test_topic_in_broker.py` reads a topic so.
"""


def connector_for(spark_version: str) -> Connector:
    """The connector that goes with a version of Spark.

    >>> [connector_for(version).version for version in ("4.0.5", "4.2.1", "4.3.0")]
    ['4.0.0', '4.2.0', '4.2.0']
    """
    return CONNECTORS[max(each for each in CONNECTORS if each <= _minor(spark_version))]


CONNECTOR: Final = connector_for(pyspark.__version__)
"""That of this process's PySpark."""


def connector_jars(
    own: Iterable[str] = (),
    *,
    cache: Path | None = None,
    note: Callable[[str], None] = lambda _: None,
    connector: Connector = CONNECTOR,
    within_s: float = 300.0,
) -> tuple[str, ...]:
    """The connector's jars, for `SessionSettings.jars`.

    Args:
        own: jars, or directories of jars, to take instead of fetching any.
        cache: where fetched jars are kept; `cache_directory` by default.
        note: called with a sentence before a download.
        connector: what is fetched.
        within_s: how long fetching may take [s].

    Raises:
        JarError: a jar of one's own is not there, Maven Central cannot be reached, or sends other bytes.
    """
    if named := list(own):
        return tuple(jar for path in named for jar in _own_jars(Path(path)))
    kept = cache or cache_directory(connector)
    if not kept.is_dir():
        note(f"downloading Spark's Kafka connector from Maven Central into {kept} (only once)")
        _fetch(kept, connector, within_s)
    return _jars_in(kept)


def cache_directory(connector: Connector = CONNECTOR) -> Path:
    """Directory of downloaded jars: under XDG_CACHE_HOME, by default `~/.cache`."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "fleetgauge" / f"spark-kafka-{connector.version}"


def _own_jars(path: Path) -> tuple[str, ...]:
    if path.is_file():
        return (str(path.absolute()),)
    jars = _jars_in(path)
    if not jars:
        raise JarError(f"--kafka-jars: there is no jar at {path}")
    return jars


def _jars_in(directory: Path) -> tuple[str, ...]:
    return tuple(str(jar.absolute()) for jar in sorted(directory.glob("*.jar")))


def _fetch(kept: Path, connector: Connector, within_s: float) -> None:
    """Downloads next to `kept` and renames, so that `kept` is never incomplete, even with another download at the same
    time.
    """
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=kept.parent) as directory:
            _resolve(connector, Path(directory), within_s)
            _check(Path(directory) / "jars", connector.sha256)
            if not kept.is_dir():
                (Path(directory) / "jars").rename(kept)
    except OSError as error:
        if not kept.is_dir():
            raise JarError(f"Spark's Kafka connector cannot be stored in {kept}: {error}") from error


def _check(directory: Path, sha256: Mapping[str, str]) -> None:
    """Compares downloaded files with the release's digests.

    Raises:
        JarError: a file differs, is missing or is no part of the connector.
    """
    digests = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in directory.glob("*.jar")}
    wrong = sorted(name for name in digests.keys() | sha256 if digests.get(name) != sha256.get(name))
    if wrong:
        raise JarError(
            f"Spark's Kafka connector was discarded: the SHA-256 of {', '.join(wrong)} is wrong; check the "
            "repository that serves as Maven Central, or use your own jars with --kafka-jars"
        )


def _resolve(connector: Connector, ivy: Path, within_s: float) -> None:
    """Lets Spark's own Ivy put the jars into `ivy/jars`."""
    home = Path(pyspark.__file__).parent
    command = [
        str(home / "bin" / "spark-submit"),
        *("--conf", f"spark.jars.ivy={ivy}", "--packages", connector.coordinates),
        *("--exclude-packages", ",".join(_COMES_WITH_SPARK)),
        *("--class", _DOES_NOTHING, "spark-internal"),
    ]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "SPARK_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise JarError(_not_fetched(connector, f"no answer within {within_s:.0f} s")) from None
    if done.returncode != 0 or not _jars_in(ivy / "jars"):
        raise JarError(_not_fetched(connector, _reason(done.stderr)))


def _not_fetched(connector: Connector, reason: str) -> str:
    return (
        f"Spark's Kafka connector {connector.coordinates} cannot be fetched from Maven Central ({reason}): "
        f"use your own jars with --kafka-jars ({', '.join(connector.sha256)})"
    )


def _reason(log: str) -> str:
    """The most specific line in the log of Ivy or Spark."""
    lines = [line.strip() for line in log.splitlines()]
    for pattern in _SAYING_MOST:
        matching = next((line for line in lines if re.search(pattern, line)), None)
        if matching:
            return matching.removeprefix('Exception in thread "main" ')[:200]
    return "spark-submit reported no reason"

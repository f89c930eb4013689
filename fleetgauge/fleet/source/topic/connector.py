"""Spark's Kafka connector: four jars beyond PySpark's own, fetched from Maven Central once, or given by an operator."""

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import pyspark

from fleetgauge.fleet.errors import JarError

COORDINATES: Final = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
"""As Maven has it."""

_COMES_WITH_SPARK: Final = (
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
"""Patterns of the lines of a log that tell why nothing was fetched, the first of them most."""

SHA256: Final = {
    "org.apache.commons_commons-pool2-2.12.0.jar": "6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b",
    "org.apache.kafka_kafka-clients-3.9.0.jar": "15c1e137f2c2c94398e27abc4060a03b6bde10bf9fac15e8f70c02320b202f18",
    "org.apache.spark_spark-sql-kafka-0-10_2.13-4.0.0.jar": (
        "33a3b8b04df4a2e43c9d5bf8ca5972936a1ac662f2714e014d00ef6f27468bf3"
    ),
    "org.apache.spark_spark-token-provider-kafka-0-10_2.13-4.0.0.jar": (
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767"
    ),
}
"""The files that are fetched, as Ivy names them, and their digests."""


def connector_jars(
    own: Iterable[str] = (),
    *,
    cache: Path | None = None,
    note: Callable[[str], None] = lambda _: None,
    sha256: Mapping[str, str] = SHA256,
    within_s: float = 300.0,
) -> tuple[str, ...]:
    """The connector's jars, for `SessionSettings.jars`.

    Args:
        own: jars, or directories of jars, to take instead of fetching any.
        cache: where fetched jars are kept; `cache_directory` by default.
        note: told in a sentence when jars are about to be fetched.
        sha256: digests of the jars that are fetched, by name.
        within_s: how long fetching may take [s].

    Raises:
        JarError: a jar of one's own is not there, Maven Central cannot be reached, or sends other bytes.
    """
    if named := list(own):
        return tuple(jar for path in named for jar in _own_jars(Path(path)))
    kept = cache or cache_directory()
    if not kept.is_dir():
        note(f"fetching Spark's Kafka connector from Maven Central into {kept}, this once")
        _fetch(kept, sha256, within_s)
    return _jars_in(kept)


def cache_directory() -> Path:
    """Where fetched jars are kept: under XDG_CACHE_HOME, by default `~/.cache`."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "fleetgauge" / f"spark-kafka-{pyspark.__version__}"


def _own_jars(path: Path) -> tuple[str, ...]:
    if path.is_file():
        return (str(path.absolute()),)
    jars = _jars_in(path)
    if not jars:
        raise JarError(f"there is no jar at {path}, which --kafka-jars names")
    return jars


def _jars_in(directory: Path) -> tuple[str, ...]:
    return tuple(str(jar.absolute()) for jar in sorted(directory.glob("*.jar")))


def _fetch(kept: Path, sha256: Mapping[str, str], within_s: float) -> None:
    """Fetches beside `kept` and renames, so that `kept` is never half there, whoever else fetches meanwhile."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=kept.parent) as directory:
            _resolve(Path(directory), within_s)
            _check(Path(directory) / "jars", sha256)
            if not kept.is_dir():
                (Path(directory) / "jars").rename(kept)
    except OSError as error:
        if not kept.is_dir():
            raise JarError(f"Spark's Kafka connector cannot be kept in {kept}: {error}") from error


def _check(directory: Path, sha256: Mapping[str, str]) -> None:
    """Compares what was fetched with the release's digests.

    Raises:
        JarError: a file differs, is missing or is no part of the connector.
    """
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in directory.glob("*.jar")}
    wrong = sorted(name for name in found.keys() | sha256 if found.get(name) != sha256.get(name))
    if wrong:
        raise JarError(
            f"Spark's Kafka connector was dropped: the SHA-256 of {', '.join(wrong)} is not the expected one; "
            "check the repository that answers for Maven Central, or name jars of your own with --kafka-jars"
        )


def _resolve(ivy: Path, within_s: float) -> None:
    """Has Spark's own Ivy put the jars into `ivy/jars`."""
    home = Path(pyspark.__file__).parent
    command = [
        str(home / "bin" / "spark-submit"),
        *("--conf", f"spark.jars.ivy={ivy}", "--packages", COORDINATES),
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
        raise JarError(_not_fetched(f"no answer within {within_s:.0f} s")) from None
    if done.returncode != 0 or not _jars_in(ivy / "jars"):
        raise JarError(_not_fetched(_reason(done.stderr)))


def _not_fetched(reason: str) -> str:
    return (
        f"Spark's Kafka connector {COORDINATES} cannot be fetched from Maven Central ({reason}): "
        f"name jars of your own with --kafka-jars ({', '.join(SHA256)})"
    )


def _reason(log: str) -> str:
    """The line of Ivy's or Spark's log that says most."""
    lines = [line.strip() for line in log.splitlines()]
    for pattern in _SAYING_MOST:
        found = next((line for line in lines if re.search(pattern, line)), None)
        if found:
            return found.removeprefix('Exception in thread "main" ')[:200]
    return "spark-submit says nothing of why"

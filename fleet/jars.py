"""Jars beyond PySpark's own: fetched from Maven Central once, or given by an operator."""

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

from fleet.errors import JarError

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
_FETCHED_WITHIN_S: Final = 300.0
_SAYING_MOST: Final = ("Server access error", r"Host \S+ not found", "unresolved dependency", "Exception")
"""Patterns of the lines of a log that tell why nothing was fetched, the first of them most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A library of the JVM and what it stands on.

    Attributes:
        what: its name for an operator.
        coordinates: as Maven has them.
        kept_as: name of the directory that its jars are kept in.
        option: of the command line, which names jars of one's own.
        names: the jars that such a directory has to hold.
    """

    what: str
    coordinates: str
    kept_as: str
    option: str
    names: tuple[str, ...]

    @property
    def cache_directory(self) -> Path:
        """Where its fetched jars are kept: under XDG_CACHE_HOME, by default `~/.cache`."""
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return root / "fleetgauge" / self.kept_as


def jars_of(
    package: Package,
    own: Iterable[str] = (),
    *,
    cache: Path | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> tuple[str, ...]:
    """A package's jars, for `SessionSettings.jars`.

    Args:
        package: whose.
        own: jars, or directories of jars, to take instead of fetching any.
        cache: where fetched jars are kept; the package's `cache_directory` by default.
        note: told in a sentence when jars are about to be fetched.

    Raises:
        JarError: a jar of one's own is not there, or Maven Central cannot be reached.
    """
    if named := list(own):
        return tuple(jar for path in named for jar in _own_jars(package, Path(path)))
    kept = cache or package.cache_directory
    if not kept.is_dir():
        note(f"fetching {package.what} from Maven Central into {kept}, this once")
        _fetch(package, kept)
    return _jars_in(kept)


def _own_jars(package: Package, path: Path) -> tuple[str, ...]:
    if path.is_file():
        return (str(path.absolute()),)
    jars = _jars_in(path)
    if not jars:
        raise JarError(f"there is no jar at {path}, which {package.option} names")
    return jars


def _jars_in(directory: Path) -> tuple[str, ...]:
    return tuple(str(jar.absolute()) for jar in sorted(directory.glob("*.jar")))


def _fetch(package: Package, kept: Path) -> None:
    """Fetches beside `kept` and renames, so that `kept` is never half there, whoever else fetches meanwhile."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=kept.parent) as directory:
            _resolve(package, Path(directory))
            if not kept.is_dir():
                (Path(directory) / "jars").rename(kept)
    except OSError as error:
        if not kept.is_dir():
            raise JarError(f"{package.what} cannot be kept in {kept}: {error}") from error


def _resolve(package: Package, ivy: Path) -> None:
    """Has Spark's own Ivy put the jars into `ivy/jars`."""
    home = Path(pyspark.__file__).parent
    command = [
        str(home / "bin" / "spark-submit"),
        *("--conf", f"spark.jars.ivy={ivy}", "--packages", package.coordinates),
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
            timeout=_FETCHED_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise JarError(_not_fetched(package, f"no answer within {_FETCHED_WITHIN_S:.0f} s")) from None
    if done.returncode != 0 or not _jars_in(ivy / "jars"):
        raise JarError(_not_fetched(package, _reason(done.stderr)))


def _not_fetched(package: Package, reason: str) -> str:
    return (
        f"{package.what} {package.coordinates} cannot be fetched from Maven Central ({reason}): "
        f"name jars of your own with {package.option} ({', '.join(package.names)})"
    )


def _reason(log: str) -> str:
    """The line of Ivy's or Spark's log that says most."""
    lines = [line.strip() for line in log.splitlines()]
    for pattern in _SAYING_MOST:
        found = next((line for line in lines if re.search(pattern, line)), None)
        if found:
            return found.removeprefix('Exception in thread "main" ')[:200]
    return "spark-submit says nothing of why"

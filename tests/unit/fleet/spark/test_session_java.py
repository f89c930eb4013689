from pathlib import Path

import pyspark
import pytest

from fleetgauge.fleet.errors import JavaError
from fleetgauge.fleet.spark.session import check_java, parse_java_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.2"', 11),
        ("no such thing", None),
    ],
)
def test_the_major_version_is_read_from_javas_own_words(text: str, version: int | None) -> None:
    assert parse_java_version(text) == version


def pretend_java(home: Path, version: str) -> None:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)


def test_an_old_java_is_refused_with_what_is_needed_and_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_java(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError, match=r"is Java 11\. Spark .* needs Java 17 to 25: install one .*apt-get install"):
        check_java()


@pytest.mark.parametrize("version", ["21.0.1", "25.0.1"])
def test_a_java_that_is_recent_enough_is_taken(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_java()


def test_a_java_that_an_earlier_spark_does_not_run_on_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_java(tmp_path, "25.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")
    with pytest.raises(JavaError, match=r"is Java 25\. Spark 4\.1\.4 needs Java 17 to 23"):
        check_java()


def test_a_missing_java_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaError, match="no Java found"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError, match="JAVA_HOME has no Java"):
        check_java()

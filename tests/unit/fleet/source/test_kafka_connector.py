"""The connector's jars: those of one's own, those kept, and those to be fetched (by a pretended spark-submit)."""

import hashlib
from pathlib import Path

import pyspark
import pytest

from fleetgauge.fleet.errors import JarError
from fleetgauge.fleet.source.topic.connector import CONNECTOR, Connector, cache_directory, connector_jars


@pytest.fixture
def pretend_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `spark-submit` to be written to, in place of PySpark's."""
    submit = tmp_path / "pyspark" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "pyspark" / "__init__.py"))
    return submit


def says(submit: Path, script: str) -> None:
    submit.write_text(f"#!/bin/sh\n{script}\n")
    submit.chmod(0o755)


FETCHES = (
    'ivy="${2#spark.jars.ivy=}"; mkdir -p "$ivy/jars"; printf "a jar" > "$ivy/jars/connector.jar"; '
    'echo "$*" > "$(dirname "$0")/arguments"'
)
DIGEST = hashlib.sha256(b"a jar").hexdigest()


def release(sha256: dict[str, str]) -> Connector:
    return Connector(version="4.0.7", sha256=sha256)


def test_fetched_jars_are_kept_and_fetched_once(tmp_path: Path, pretend_spark: Path) -> None:
    notes: list[str] = []
    says(pretend_spark, FETCHES)
    found = connector_jars(
        cache=tmp_path / "cache" / "kept", note=notes.append, connector=release({"connector.jar": DIGEST})
    )
    assert found == (str(tmp_path / "cache" / "kept" / "connector.jar"),)
    arguments = pretend_spark.with_name("arguments").read_text()
    assert "--packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.7 " in arguments
    says(pretend_spark, "exit 1")
    assert connector_jars(cache=tmp_path / "cache" / "kept", note=notes.append) == found
    assert len(notes) == 1
    assert list((tmp_path / "cache").iterdir()) == [tmp_path / "cache" / "kept"], "nothing else is left behind"


@pytest.mark.parametrize(
    ("expected", "wrong"),
    [
        ({"connector.jar": "0" * 64}, "connector.jar"),
        ({"connector.jar": DIGEST, "missing.jar": DIGEST}, "missing.jar"),
        ({}, "connector.jar"),
    ],
)
def test_jars_that_are_not_the_expected_ones_are_dropped_and_named(
    tmp_path: Path, pretend_spark: Path, expected: dict[str, str], wrong: str
) -> None:
    says(pretend_spark, FETCHES)
    with pytest.raises(JarError, match=f"the SHA-256 of {wrong} is wrong"):
        connector_jars(cache=tmp_path / "kept", connector=release(expected))
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (
            "echo ':: problems summary ::\n\t\tunresolved dependency: x#y;4.0.0: not found' >&2; exit 1",
            "(unresolved dependency: x#y;4.0.0: not found)",
        ),
        (
            "echo 'Server access error at url https://jars.example.com/x\nunresolved dependency: z' >&2; exit 1",
            "(Server access error at url https://jars.example.com/x)",
        ),
        (
            "echo 'unresolved dependency: z\nHost jars.example.com not found. url=https://x' >&2; exit 1",
            "(Host jars.example.com not found. url=https://x)",
        ),
        ("exit 1", "(spark-submit reported no reason)"),
        ("exit 0", "(spark-submit reported no reason)"),
    ],
)
def test_what_cannot_be_fetched_is_one_sentence_with_the_reason_and_the_way_out(
    tmp_path: Path, pretend_spark: Path, script: str, reason: str
) -> None:
    says(pretend_spark, script)
    with pytest.raises(JarError) as refused:
        connector_jars(cache=tmp_path / "kept")
    assert f"cannot be fetched from Maven Central {reason}: use your own jars with --kafka-jars" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "kept").exists(), "the next try fetches again"


def test_a_fetch_without_an_answer_ends(tmp_path: Path, pretend_spark: Path) -> None:
    says(pretend_spark, "exec sleep 30")
    with pytest.raises(JarError, match="no answer within"):
        connector_jars(cache=tmp_path / "kept", within_s=0.1)


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JarError, match=r"cannot be stored in .*file/kept"):
        connector_jars(cache=tmp_path / "file" / "kept")


def test_jars_of_ones_own_are_files_or_directories_and_nothing_is_fetched(tmp_path: Path, pretend_spark: Path) -> None:
    directory = tmp_path / "jars"
    directory.mkdir()
    for name in ("b.jar", "a.jar", "notes.txt"):
        (directory / name).write_text("")
    single = tmp_path / "c.jar"
    single.write_text("")
    found = connector_jars([str(directory), str(single)], cache=tmp_path / "kept")
    assert found == (str(directory / "a.jar"), str(directory / "b.jar"), str(single))


def test_a_jar_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(JarError, match=r"--kafka-jars: there is no jar at .*nosuch\.jar"):
        connector_jars([str(tmp_path / "nosuch.jar")])


def test_fetched_jars_are_kept_for_each_version_of_spark_where_caches_belong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "fleetgauge" / f"spark-kafka-{CONNECTOR.version}"

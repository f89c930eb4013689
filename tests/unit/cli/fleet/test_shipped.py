"""What `--py-files` and `--archives` become of Spark's settings."""

from pathlib import Path

import pytest

from fleetgauge.cli.fleet.options import SparkJob
from fleetgauge.fleet.errors import FleetError
from fleetgauge.fleet.spark.session import spark_options

SHIPPING = ("spark.files", "spark.submit.pyFiles", "spark.archives")


def shipped(job: SparkJob) -> dict[str, str]:
    options = spark_options(job.settings())
    return {name: options[name] for name in SHIPPING if name in options}


def test_nothing_is_set_where_nothing_is_shipped() -> None:
    assert shipped(SparkJob()) == {}
    assert shipped(SparkJob(py_files="", archives=",")) == {}


def test_files_are_named_whole_since_spark_looks_for_them_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("fleet.zip", "more.py", "env.tar.gz"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    both = f"{tmp_path}/fleet.zip,{tmp_path}/more.py,hdfs:///others.zip,local:/opt/all.zip"
    files = "fleet.zip,more.py,hdfs:///others.zip,local:/opt/all.zip"
    assert shipped(SparkJob(py_files=files, archives="env.tar.gz#environment")) == {
        "spark.files": both,
        "spark.submit.pyFiles": both,
        "spark.archives": f"{tmp_path}/env.tar.gz#environment",
    }


def test_files_of_spark_s_own_settings_are_shipped_too() -> None:
    own = ["spark.files=hdfs:///log4j2.properties"]
    with_code = shipped(SparkJob(master="yarn", conf=own, py_files="hdfs:///fleet.zip"))
    assert with_code["spark.files"] == "hdfs:///log4j2.properties,hdfs:///fleet.zip"
    assert shipped(SparkJob(master="yarn", conf=own)) == {"spark.files": "hdfs:///log4j2.properties"}


@pytest.mark.parametrize(
    ("py_files", "archives", "option"), [("no.zip", None, "--py-files"), (None, "no.gz#environment", "--archives")]
)
def test_a_file_that_is_missing_is_named_with_its_option(
    py_files: str | None, archives: str | None, option: str
) -> None:
    with pytest.raises(FleetError, match=rf"{option}: there is no file no\.(zip|gz)$"):
        SparkJob(py_files=py_files, archives=archives).settings()

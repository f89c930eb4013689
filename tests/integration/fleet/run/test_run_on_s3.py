"""`fleet run` on a landing zone in an S3-compatible store, as exporters write it there, without Spark."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs
from support.fleet.standing_tables import assert_equal, contents, rows
from support.ports import free_port
from support.receivers.s3_store import SECRET, s3, s3_store
from typer.testing import CliRunner, Result

from fleetgauge.cli.fleet.app import app
from fleetgauge.fleet.source.zone_files import opened

pytestmark = pytest.mark.integration
SEED = "5"


def fleet(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


@pytest.fixture(autouse=True, scope="module")
def no_spark() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fleetgauge.fleet.pipeline.run._started", lambda _: pytest.fail("Spark was started"))
        yield


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with s3_store(tmp_path_factory.mktemp("s3") / "access.log") as port:
        yield port


@pytest.fixture(scope="module")
def zone(port: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A zone on this machine with a damaged file, of which the store has a copy, `lake/pushes`."""
    simulated = tmp_path_factory.mktemp("simulated") / "fleet"
    simulate = fleet("simulate", str(simulated), "--clients", "12", "--hours", "0.5", "--seed", SEED)
    assert simulate.exit_code == 0, simulate.output
    landing = simulated / "landing"
    whole = next(landing.glob("date=*/*/*.parquet"))
    whole.with_name("damaged.parquet").write_bytes(whole.read_bytes()[:-100])
    s3(port).create_dir("lake")
    fs.copy_files(str(landing), "lake/pushes", destination_filesystem=s3(port))
    return landing


def options(port: int) -> list[str]:
    keys = {
        "endpoint": f"http://127.0.0.1:{port}",
        "endpoint.region": "us-east-1",
        "access.key": "key",
        "secret.key": SECRET,
    }
    return [word for key, value in keys.items() for word in ("--conf", f"spark.hadoop.fs.s3a.{key}={value}")]


def said(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_zone_in_s3_makes_the_same_tables_as_one_here(zone: Path, port: int, tmp_path: Path) -> None:
    said(fleet("run", "--source", str(zone), "--tables", str(tmp_path / "here"), "--format", "json"))
    words = ["--source", "s3://lake/pushes", "--tables", str(tmp_path / "s3"), "--format", "json", *options(port)]
    first = said(fleet("run", *words))
    assert first["pushes"] > 0
    assert rows(tmp_path / "s3", "group_offsets")
    found, expected = (contents(tmp_path / name, without=("rejects", "verdicts")) for name in ("s3", "here"))
    assert_equal(found, expected)
    (rejected,) = rows(tmp_path / "s3", "rejects")
    assert rejected["source_file"].startswith("s3://lake/pushes/date=")
    assert "damaged" in rejected["reason"]
    again = said(fleet("run", *words))
    assert (again["files"], again["pushes"]) == (0, 0)


def test_parameters_and_credentials_are_those_of_an_exporter(
    zone: Path, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    uri = f"s3a://lake/pushes/?region=us-east-1&scheme=http&endpoint_override=127.0.0.1:{port}"
    assert said(fleet("run", "--source", uri, "--tables", str(tmp_path), "--format", "json"))["pushes"] > 0


@pytest.mark.parametrize(
    ("source", "problem", "code"),
    [
        ("s3://lake/nothing", "there is no landing zone at s3://lake/nothing", 1),
        ("s3://key:hidden@lake/pushes", "--source: credentials are not taken from the URI: set AWS_ACCESS_KEY_ID", 2),
        ("s3://key:hid/den@lake/pushes", "--source: credentials are not taken from the URI", 2),
        ("s3://lake/pushes?secret_key=hidden", "region, scheme, endpoint_override, not secret_key", 2),
        ("s3:///pushes", "--source: the bucket is missing: use s3://bucket/path", 2),
    ],
)
def test_what_is_wrong_is_one_sentence(
    zone: Path, port: int, tmp_path: Path, source: str, problem: str, code: int
) -> None:
    result = fleet("run", "--source", source, "--tables", str(tmp_path), *options(port))
    assert result.exit_code == code
    assert problem in " ".join(result.output.split())
    assert "hid" not in result.output
    assert list(tmp_path.glob("silver/*")) == []


@pytest.mark.parametrize("folder", ["date=", "group_offsets/"])
def test_a_store_that_does_not_answer_sets_no_file_aside(zone: Path, tmp_path: Path, folder: str) -> None:
    """It ends as the first such file is read; the next run reads the rest, from the store at another port."""
    with s3_store(tmp_path / "access.log") as port, pytest.MonkeyPatch.context() as patched:
        s3(port).create_dir("lake")
        fs.copy_files(str(zone), "lake/pushes", destination_filesystem=s3(port))

        def ended(system: fs.FileSystem, path: str) -> Any:
            if path.startswith(f"s3://lake/pushes/{folder}"):
                system = s3(free_port())  # where nobody listens
            return opened(system, path)

        for reader in ("source.landing", "pipeline.side_rows"):
            patched.setattr(f"fleetgauge.fleet.{reader}.opened", ended)
        words = ["--source", "s3://lake/pushes", "--tables", str(tmp_path / "tables"), "--format", "json"]
        result = fleet("run", *words, *options(port))
        assert result.exit_code == 1
        assert "AWS Error NETWORK_CONNECTION" in result.output
    assert [row["reason"] for row in rows(tmp_path / "tables", "rejects") if "damaged" not in row["source_file"]] == []
    with s3_store(tmp_path / "access.log") as port:
        s3(port).create_dir("lake")
        fs.copy_files(str(zone), "lake/pushes", destination_filesystem=s3(port))
        said(fleet("run", *words, *options(port)))
    said(fleet("run", "--source", str(zone), "--tables", str(tmp_path / "here"), "--format", "json"))
    found, expected = (contents(tmp_path / name, without=("rejects", "verdicts")) for name in ("tables", "here"))
    assert_equal(found, expected)


def test_a_file_that_is_gone_is_set_aside(zone: Path, port: int, tmp_path: Path) -> None:
    store, gone = s3(port), "lake/fewer/date=2026-03-02/hour=06"
    fs.copy_files(str(zone), "lake/fewer", destination_filesystem=store)

    def after_the_listing(system: fs.FileSystem, path: str) -> Any:
        if store.get_file_info(gone).type != fs.FileType.NotFound:
            store.delete_dir(gone)
        return opened(system, path)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fleetgauge.fleet.source.landing.opened", after_the_listing)
        words = ["--source", "s3://lake/fewer", "--tables", str(tmp_path), "--format", "json", *options(port)]
        assert list(said(fleet("run", *words))["rejects"]) == ["the file cannot be read: it is damaged, or gone"]

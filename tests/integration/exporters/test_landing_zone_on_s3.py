"""The landing zone on an S3-compatible store: moto's server, over HTTP."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyarrow import dataset, fs
from support.programs.delivery import Delivery, real_records
from support.proxies.resetting_proxy import ResettingProxy
from support.receivers.s3_store import SECRET, s3, s3_store

from fleetgauge.base.clock import MockTime
from fleetgauge.exporters.exporter import Delivered, Retry
from fleetgauge.exporters.landing.exporter import LandingExporter, LandingSettings, landing_exporter
from fleetgauge.push_log.log import Batch
from fleetgauge.telemetry.push_record import PushRecord

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def access_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the store writes a line for each request."""
    return tmp_path_factory.mktemp("store") / "access.log"


@pytest.fixture(scope="module")
def store(access_log: Path) -> Iterator[int]:
    """The port of a store that is empty."""
    with s3_store(access_log) as port:
        yield port


def uri(port: int, bucket: str, credentials: str = f"key:{SECRET}@") -> str:
    s3(port).create_dir(bucket)
    return f"s3://{credentials}{bucket}/landing?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"


def rows(port: int, bucket: str) -> list[str]:
    """The push ids that a reader sees."""
    found = dataset.dataset(f"{bucket}/landing", filesystem=s3(port), format="parquet", partitioning="hive")
    return sorted(str(row["push_id"]) for row in found.to_table().to_pylist())


def folders(port: int, bucket: str) -> list[str]:
    found = s3(port).get_file_info(fs.FileSelector(f"{bucket}/landing", allow_not_found=True, recursive=True))
    return sorted({info.path.rpartition("/")[0] for info in found if info.is_file})


def batch_of(records: list[PushRecord]) -> Batch:
    return Batch(exporter="lake", records=tuple(records), first_position="1", last_position="9", size_bytes=1)


def ids(records: list[PushRecord]) -> list[str]:
    return [record.push_id for record in records]


def test_every_push_of_a_log_lands_once_with_credentials_from_the_uri(store: int, tmp_path: Path) -> None:
    records = real_records(100)
    with Delivery(tmp_path, type="landing", path=uri(store, "whole"), linger__ms=50) as delivery:
        delivery.push(*records)
        delivery.wait_delivered()
    assert rows(store, "whole") == ids(records)


def test_credentials_may_come_from_the_environment_as_for_every_aws_client(
    store: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    exporter = landing_exporter("lake", {"path": uri(store, "env", credentials="")})
    assert exporter.export(batch_of(real_records(5))) == Delivered()
    assert len(rows(store, "env")) == 5


def test_a_batch_that_comes_again_with_more_writes_only_the_new(store: int) -> None:
    records = real_records(30)
    path = uri(store, "again")
    landing_exporter("lake", {"path": path}).export(batch_of(records[:20]))
    assert landing_exporter("lake", {"path": path}).export(batch_of(records)) == Delivered()
    assert rows(store, "again") == ids(records)


def test_old_hours_go_and_are_counted(store: int) -> None:
    hour_us = 3_600_000_000
    records = [
        record._replace(received_at=record.received_at + number * hour_us)
        for number, record in enumerate(real_records(5))
    ]
    wall_ms = records[-1].received_at // 1_000
    settings = LandingSettings(path=uri(store, "old"), retention_ms=2 * 3_600_000)
    exporter = LandingExporter("lake", settings, time=MockTime(wall_ms=wall_ms))
    assert exporter.export(batch_of(records)) == Delivered()
    assert exporter.counters()["retired_files"] == 2
    assert rows(store, "old") == ids(records[2:])
    assert len(folders(store, "old")) == 3


def uploads(access_log: Path, bucket: str) -> list[str]:
    """The requests by which files came into a bucket, without what is behind their paths' `?`."""
    found = [line.split('"')[1] for line in access_log.read_text().splitlines() if f"/{bucket}/landing/" in line]
    return [request for request in found if not request.startswith(("HEAD ", "GET "))]


def test_a_small_file_is_one_request_under_its_final_name(store: int, access_log: Path) -> None:
    exporter = landing_exporter("lake", {"path": uri(store, "small")})
    assert exporter.export(batch_of(real_records(5))) == Delivered()
    [upload] = uploads(access_log, "small")
    assert upload.startswith("PUT /small/landing/date=")
    assert ".parquet HTTP/1.1" in upload


def test_an_upload_that_breaks_off_leaves_nothing_that_a_reader_sees(store: int) -> None:
    sizes = {"small-one": 200_000, "several-parts": 12 << 20}
    paths = {bucket: uri(store, bucket) for bucket in sizes}
    [record] = real_records(1)
    batches = {bucket: batch_of([record._replace(metrics=os.urandom(size))]) for bucket, size in sizes.items()}

    def export(bucket: str, port: int) -> object:
        path = paths[bucket].replace(str(store), str(port))
        return landing_exporter("lake", {"path": path}).export(batches[bucket])

    with ResettingProxy(store, after_bytes=100_000, times=1_000) as proxy, ThreadPoolExecutor() as at_once:
        outcomes = list(at_once.map(lambda bucket: export(bucket, proxy.port), sizes))
    assert proxy.resets > 0
    assert [type(outcome) for outcome in outcomes] == [Retry, Retry]
    for bucket in sizes:
        assert folders(store, bucket) == []
        assert export(bucket, store) == Delivered()
        assert rows(store, bucket) == [record.push_id]


def test_a_bucket_that_is_missing_is_tried_again_and_no_secret_is_told(store: int) -> None:
    path = uri(store, "there").replace("@there/", "@missing/")
    exporter = landing_exporter("lake", {"path": path})
    outcome = exporter.export(batch_of(real_records(1)))
    assert isinstance(outcome, Retry)
    assert "cannot write to s3://missing/landing" in outcome.detail
    assert SECRET not in outcome.detail
    s3(store).create_dir("missing")
    assert exporter.export(batch_of(real_records(1))) == Delivered()

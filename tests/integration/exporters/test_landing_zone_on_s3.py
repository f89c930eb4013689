"""The landing zone on an S3-compatible store: moto's server, over HTTP."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from pyarrow import dataset, fs
from support.delivery import Delivery, real_records
from support.kafka_broker import free_ports, with_the_test_run

from exporters.landing import LandingExporter, LandingSettings, landing_exporter
from exporters.outcome import Delivered, Retry
from exporters.push_log.log import Batch
from quotas.clock import MockTime
from telemetry.push_record import PushRecord

pytestmark = pytest.mark.integration

SECRET = "s3cr3t"


@pytest.fixture(scope="module")
def store() -> Iterator[int]:
    """The port of a store that is empty."""
    [port] = free_ports(1)
    command = [*with_the_test_run(), sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                s3(port).get_file_info(fs.FileSelector(""))
                break
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield port
    finally:
        process.kill()
        process.wait()


def s3(port: int) -> fs.S3FileSystem:
    return fs.S3FileSystem(
        endpoint_override=f"127.0.0.1:{port}", scheme="http", region="us-east-1", access_key="key", secret_key=SECRET,
        allow_bucket_creation=True,
    )  # fmt: skip


def uri(port: int, bucket: str, credentials: str = f"key:{SECRET}@") -> str:
    s3(port).create_dir(bucket)
    return f"s3://{credentials}{bucket}/landing?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"


def rows(port: int, bucket: str) -> list[str]:
    """The push ids that a reader sees."""
    found = dataset.dataset(f"{bucket}/landing", filesystem=s3(port), format="parquet", partitioning="hive")
    return sorted(str(row["push_id"]) for row in found.to_table().to_pylist())


def folders(port: int, bucket: str) -> list[str]:
    found = s3(port).get_file_info(fs.FileSelector(f"{bucket}/landing", recursive=True))
    return sorted({info.path.rpartition("/")[0] for info in found if info.is_file})


def batch_of(records: list[PushRecord]) -> Batch:
    return Batch(exporter="lake", records=tuple(records), first_position="1", last_position="9", size_bytes=1)


def ids(records: list[PushRecord]) -> list[str]:
    return [record.push_id for record in records]


def test_every_push_of_a_log_lands_once_with_credentials_from_the_uri(store: int, tmp_path: object) -> None:
    records = real_records(100)
    with Delivery(tmp_path, type="landing", path=uri(store, "whole"), linger__ms=50) as delivery:  # type: ignore[arg-type]
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


def test_a_bucket_that_is_missing_is_tried_again_and_no_secret_is_told(store: int) -> None:
    path = uri(store, "there").replace("@there/", "@missing/")
    exporter = landing_exporter("lake", {"path": path})
    outcome = exporter.export(batch_of(real_records(1)))
    assert isinstance(outcome, Retry)
    assert "cannot write to s3://missing/landing" in outcome.detail
    assert SECRET not in outcome.detail
    s3(store).create_dir("missing")
    assert exporter.export(batch_of(real_records(1))) == Delivered()

"""The sampler of consumer groups: its settings, its bounds and its files, without a broker."""

from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient
from support.proxies.trickling import KAFKA, trickling

from fleetgauge.base.clock import MockTime, SystemTime
from fleetgauge.exporters.group_offsets.requests import NOT_SAMPLED, Requests, error_of
from fleetgauge.exporters.group_offsets.sampler import Sampler
from fleetgauge.exporters.group_offsets.schema import GROUP_OFFSETS_SCHEMA, Sample, record_batch
from fleetgauge.exporters.group_offsets.settings import OffsetsConfigError, OffsetsSettings, read_command_config
from fleetgauge.exporters.group_offsets.zone import OffsetsZone

NOON_US = 1_772_366_400_000_000


def config(tmp_path: Path, text: str) -> dict[str, str]:
    file = tmp_path / "admin.properties"
    file.write_text(text)
    return read_command_config(file)


def test_a_file_for_kafkas_tools_is_understood(tmp_path: Path) -> None:
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required \\\n  username="al" password="a b=c;";'
    found = config(
        tmp_path,
        f"# a comment\nsecurity.protocol=SASL_SSL\nsasl.mechanism: SCRAM-SHA-512\nsasl.jaas.config={jaas}\n"
        "ssl.truststore.location=/etc/ca.pem\nssl.truststore.type=PEM\nssl.endpoint.identification.algorithm=\n",
    )
    assert found == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "al",
        "sasl.password": "a b=c;",
        "ssl.ca.location": "/etc/ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ssl.truststore.location=/etc/trust.jks", "librdkafka reads PEM"),
        ("sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required;", "sasl.kerberos.keytab"),
    ],
)
def test_what_librdkafka_has_no_setting_for_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(OffsetsConfigError, match=problem):
        config(tmp_path, text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(OffsetsConfigError, match="No such file"):
        read_command_config(tmp_path / "nosuch")


def samples(count: int, at_us: int = NOON_US) -> Any:
    return record_batch(
        [Sample(sampled_at=at_us, cluster_id="c", group_id="g", partition=each) for each in range(count)]
    )


def test_files_are_complete_by_hour_and_of_the_schema(tmp_path: Path) -> None:
    zone = OffsetsZone(str(tmp_path), "w", 60_000, None, MockTime())
    zone.add(samples(3))
    zone.add(samples(2, NOON_US + 3_600_000_000))
    assert zone.due_ms() is not None
    assert zone.flush()
    assert zone.due_ms() is None
    files = sorted((tmp_path / "group_offsets").rglob("*.parquet"))
    assert [file.parent.name for file in files] == ["hour=12", "hour=13"]
    assert [pq.read_table(file, partitioning=None).num_rows for file in files] == [3, 2]
    assert pq.read_schema(files[0]).equals(GROUP_OFFSETS_SCHEMA)
    assert (zone.files, zone.rows) == (2, 5)


def test_what_cannot_be_written_waits_within_bounds(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("")
    zone = OffsetsZone(str(place), "w", 60_000, None, MockTime())
    zone.most_waiting = 2_000
    for _ in range(5):
        zone.add(samples(500))
        assert not zone.flush()
    assert zone.lost_rows == 500
    place.unlink()
    assert zone.flush()
    assert zone.rows == 2_000


def test_a_file_that_was_published_although_that_failed_is_written_again_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone = OffsetsZone(str(tmp_path), "w", 60_000, None, MockTime())
    storage = zone._opened()
    tries: list[Any] = []
    publish = storage.publish

    def fails_once(*arguments: Any) -> Any:
        tries.append(publish(*arguments))
        if len(tries) == 1:
            raise OSError("the folder cannot be synced")
        return tries[-1]

    monkeypatch.setattr(storage, "publish", fails_once)
    zone.add(samples(3))
    assert not zone.flush()
    zone.add(samples(2, NOON_US + 1))
    assert zone.flush()
    files = sorted((tmp_path / "group_offsets").rglob("*.parquet"))
    assert sorted(pq.read_table(file, partitioning=None).num_rows for file in files) == [2, 3]
    assert zone.rows == 5


def test_retention_takes_own_files_of_old_hours_alone(tmp_path: Path) -> None:
    clock = MockTime()
    zone = OffsetsZone(str(tmp_path), "w", 60_000, 3_600_000, clock)
    old = tmp_path / "group_offsets" / "date=2001-01-01" / "hour=00"
    old.mkdir(parents=True)
    for name in ("offsets-1.parquet", "mine.parquet"):
        (old / name).write_text("")
    zone.add(samples(1, clock.microseconds()))
    assert zone.flush()
    assert [file.name for file in old.iterdir()] == ["mine.parquet"]


def test_escapes_of_properties_and_of_jaas_are_resolved(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    found = config(tmp_path, rf'sasl.jaas.config={module} required username="al" password="a\\"b;c\\\\d\u00e9";')
    assert found["sasl.password"] == 'a"b;c\\dé'


def test_a_request_that_the_library_refuses_is_one_that_failed() -> None:
    def refused() -> list["Future[Any]"]:
        raise ValueError("group_id cannot be empty")

    (future,) = Requests(1e6, 0.1, MockTime()).begin(refused)
    assert error_of(future) == "ValueError"


class HangingAdmin:
    """A cluster of two coordinators, of which the second does not answer for its groups."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def describe_cluster(self, **_: Any) -> "Future[Any]":
        return done(SimpleNamespace(cluster_id="c", authorized_operations=None))

    def list_consumer_groups(self, **_: Any) -> "Future[Any]":
        valid = [SimpleNamespace(group_id=f"group-{number}") for number in range(20)]
        return done(SimpleNamespace(valid=valid, errors=[]))

    def describe_consumer_groups(self, names: list[str], **_: Any) -> dict[str, "Future[Any]"]:
        self.asked += names
        hangs = int(names[0][6:]) % 2 == 1
        found = SimpleNamespace(state=SimpleNamespace(name="EMPTY"), members=[], coordinator=SimpleNamespace(id=0))
        return {names[0]: failed(NoAnswerError()) if hangs else done(found)}

    def list_consumer_group_offsets(self, asked: list[Any], **_: Any) -> dict[str, "Future[Any]"]:
        return {"": done(SimpleNamespace(topic_partitions=[]))}

    def list_topics(self, **_: Any) -> Any:
        return SimpleNamespace(topics={})


class NoAnswerError(Exception):
    def name(self) -> str:
        return "_TIMED_OUT"


def done(value: Any) -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def failed(error: Exception) -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_exception(error)
    return future


def test_a_coordinator_that_hangs_costs_its_own_groups_alone() -> None:
    admin = HangingAdmin()
    settings = OffsetsSettings(bootstrap_servers="-", path="-", writer="-", max_requests_per_s=10_000)
    sampler = Sampler(lambda: admin, settings, MockTime())
    sampler._coordinators = {f"group-{number}": number % 2 for number in range(20)}  # as an earlier round found them
    rows = {row.group_id: row for row in sampler.round()}
    assert len(rows) == 20
    assert all(rows[f"group-{number}"].error is None for number in range(0, 20, 2))
    errors = [rows[f"group-{number}"].error for number in range(1, 20, 2)]
    assert errors.count("TIMED_OUT") == 3
    assert errors.count(NOT_SAMPLED) == 7
    assert len(admin.asked) == 13


@pytest.mark.slow
def test_a_broker_whose_answer_has_no_end_costs_one_timeout() -> None:
    with trickling(KAFKA) as server:
        admin = AdminClient({"bootstrap.servers": server.address, "log_level": 0})
        settings = OffsetsSettings(bootstrap_servers=server.address, path="-", writer="-", timeout_ms=1_000)
        sampler = Sampler(lambda: admin, settings, SystemTime())
        assert (sampler.round(), sampler.cluster_id) == ([], "")
        assert server.asked


def test_groups_of_a_coordinator_that_never_answered_are_asked_last() -> None:
    admin = HangingAdmin()
    settings = OffsetsSettings(bootstrap_servers="-", path="-", writer="-", max_requests_per_s=10_000)
    sampler = Sampler(lambda: admin, settings, MockTime())
    sampler.round()
    admin.asked.clear()
    sampler.round()
    assert [int(name[6:]) % 2 for name in admin.asked[:10]] == [0] * 10


def test_a_client_that_finds_no_coordinator_any_more_is_replaced() -> None:
    class LostAdmin(HangingAdmin):
        def describe_consumer_groups(self, names: list[str], **_: Any) -> dict[str, "Future[Any]"]:
            return {names[0]: failed(NoAnswerError())}

    admins = [LostAdmin(), HangingAdmin()]
    settings = OffsetsSettings(bootstrap_servers="-", path="-", writer="-", max_requests_per_s=10_000)
    sampler = Sampler(lambda: admins.pop(0), settings, MockTime())
    assert {row.error for row in sampler.round()} <= {"TIMED_OUT", NOT_SAMPLED}
    assert None in {row.error for row in sampler.round()}

"""The keys of a Kafka topic as push log."""

from contextlib import closing
from pathlib import Path

import pytest
from support.programs.node import run_cli
from support.programs.push_log import RecordWriter, at_once, poll, push_record, small_log

from fleetgauge.base.clock import MockTime
from fleetgauge.base.errors import ConfigError
from fleetgauge.node.config import load_config
from fleetgauge.node.config.console import console_job
from fleetgauge.node.config.offsets import deadline_settings
from fleetgauge.node.config.push_logs import state_topic_settings, topic_settings, unread_logs
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.processes.exporter_job import Job
from fleetgauge.node.processes.job_line import from_line, to_line
from fleetgauge.push_log.embedded.reader import SqlitePushLogReader

KAFKA = ("push.log.type=kafka", "push.log.kafka.bootstrap.servers=broker1:9092,broker2:9092")


def test_every_key_of_the_topic_reaches_its_settings(tmp_path: Path) -> None:
    file = tmp_path / "fleetgauge.toml"
    file.write_text(
        """
push.log.type = "kafka"
[push.log.kafka]
bootstrap.servers = ["broker1:9092", "broker2:9092"]
group.prefix = "telemetry"
"topic" = "pushes"
"topic.partitions" = 24
"topic.replication.factor" = 3
"topic.retention.ms" = 3600000
[push.log.kafka.client]
security.protocol = "SSL"
"socket.keepalive.enable" = true
[telemetry]
max.decompressed.bytes = 1048576
"""
    )
    settings = topic_settings(load_config(file))
    assert settings.bootstrap_servers == "broker1:9092,broker2:9092"
    assert (settings.topic, settings.partitions, settings.replication_factor) == ("pushes", 24, 3)
    assert (settings.retention_ms, settings.max_payload_bytes) == (3_600_000, 1_048_576)
    assert settings.group_of("collector") == "telemetry-collector"
    assert settings.client == {"security.protocol": "SSL", "socket.keepalive.enable": "true"}


def test_the_topic_is_the_broker_plugin_s_by_default_and_nothing_is_exported_unless_it_is_said() -> None:
    config = load_config(overrides=KAFKA)
    assert (config.push_log_kafka_topic, config.push_log_kafka_topic_partitions) == ("fleetgauge-pushes", 12)
    assert config.exporters == {}
    assert load_config().exporters == {"landing": load_config().exporters["landing"]}


def test_subscriptions_are_by_default_those_of_the_brokers_with_the_topic() -> None:
    secured = (
        *KAFKA,
        "push.log.kafka.client.security.protocol=SSL",
        "push.log.kafka.client.socket.keepalive.enable=true",
    )
    read = deadline_settings(load_config(overrides=secured), is_node=False)
    assert read is not None
    assert (read.bootstrap_servers, read.client) == ("broker1:9092,broker2:9092", {"security.protocol": "SSL"})
    assert console_job(load_config(overrides=KAFKA), "export")["cluster"].bootstrap_servers == read.bootstrap_servers
    assert Job.of_export(load_config(overrides=KAFKA), 1).deadlines is not None


def test_subscriptions_of_a_node_are_its_own_and_an_empty_key_turns_those_of_the_topic_off() -> None:
    node = load_config(overrides=KAFKA)
    assert Job.of_node(node).deadlines is None
    assert console_job(node, "serve")["cluster"] is None
    assert deadline_settings(load_config(), is_node=False) is None
    off = load_config(overrides=(*KAFKA, "subscriptions.bootstrap.servers="))
    assert deadline_settings(off, is_node=False) is None
    named = load_config(overrides=(*KAFKA, "subscriptions.bootstrap.servers=other:9092"))
    found = deadline_settings(named, is_node=False)
    assert found is not None
    assert (found.bootstrap_servers, found.client) == ("other:9092", {})


def test_the_job_of_the_exporter_process_survives_its_line() -> None:
    for overrides in ((), KAFKA):
        job = Job.of(load_config(overrides=overrides), "instance")
        assert from_line(to_line(job).decode()) == job


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (("push.log.type=kafka",), "push.log.kafka.bootstrap.servers"),
        ((*KAFKA, "push.log.kafka.topics=x"), "did you mean push.log.kafka.topic.name"),
        ((*KAFKA, "push.log.kafka.topic.name=a b"), "push.log.kafka.topic.name"),
        ((*KAFKA, "push.log.kafka.topic.partitions=0"), "push.log.kafka.topic.partitions"),
        ((*KAFKA, "push.log.kafka.topic.replication.factor=0"), "push.log.kafka.topic.replication.factor"),
        ((*KAFKA, "push.log.kafka.topic.retention.ms=0"), "push.log.kafka.topic.retention.ms"),
        ((*KAFKA, "push.log.kafka.client.acks=1"), "push.log.kafka.client.acks"),
        ((*KAFKA, "push.log.kafka.client.enable.metrics.push=true"), "push.log.kafka.client.enable.metrics.push"),
        ((*KAFKA, "push.log.kafka.client.no.such.key=1"), 'No such configuration property: "no.such.key"'),
        ((*KAFKA, "push.log.kafka.client.security.protocol=magic"), "security.protocol"),
        (("push.log=rocks",), "push.log.type"),
    ],
)
def test_a_key_that_cannot_be_used_is_refused_by_its_name(overrides: tuple[str, ...], named: str) -> None:
    with pytest.raises(ConfigError, match=named.replace(".", r"\.")):
        load_config(overrides=overrides)


def test_without_the_client_library_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "confluent_kafka", None)
    with pytest.raises(ConfigError, match=r"pip install 'fleetgauge\[kafka\]'"):
        load_config(overrides=KAFKA)


@pytest.mark.slow
def test_export_says_what_it_lacks(tmp_path: Path) -> None:
    embedded = run_cli("export", "-o", f"log.dirs={tmp_path}", check=False)
    assert (embedded.returncode, "set push.log.type=kafka" in embedded.stderr) == (1, True)
    nothing = run_cli("export", *(part for key in KAFKA for part in ("--override", key)), check=False)
    assert (nothing.returncode, "nothing to export to" in nothing.stderr) == (1, True)
    assert "Traceback" not in embedded.stderr + nothing.stderr


@pytest.mark.slow
def test_what_is_known_of_an_embedded_log_alone_names_the_tools_that_know_it_of_a_topic() -> None:
    refused = run_cli("log", "stats", *(part for key in KAFKA for part in ("--override", key)), check=False)
    assert refused.returncode == 1
    assert "kafka-get-offsets" in refused.stderr
    assert "fleetgauge log tail" in refused.stderr


@pytest.mark.slow
def test_printing_the_configuration_hides_the_topic_s_secrets() -> None:
    keys = (*KAFKA, "push.log.kafka.client.sasl.password=hunter2", "push.log.kafka.client.client.id=me")
    shown = run_cli("config", *(part for key in keys for part in ("--override", key))).stdout
    assert "hunter2" not in shown
    assert 'push.log.kafka.client.sasl.password = "[hidden]"' in shown
    assert 'push.log.kafka.client.client.id = "me"' in shown


DESTINATION = (*KAFKA, "exporters.lake.type=kafka_topic", "exporters.lake.bootstrap.servers=broker2:9092")


def test_pushes_are_not_delivered_to_the_topic_that_they_are_read_from() -> None:
    with pytest.raises(ConfigError, match=r"exporters\.lake\.topic: is fleetgauge-pushes, which is the push log"):
        load_config(None, overrides=[*DESTINATION, "exporters.lake.topic=fleetgauge-pushes"])
    load_config(None, overrides=[*DESTINATION, "exporters.lake.topic=others"])


def test_what_waits_in_the_files_of_a_node_that_went_over_to_a_topic_is_counted(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    for path in (data.push_log, data.worker(2).push_log, data.worker(3).push_log):
        path.mkdir(parents=True)
        with closing(RecordWriter(small_log(path), MockTime(), spawn=at_once)) as writer:
            for number in range(3 if path != data.worker(2).push_log else 0):
                writer.append(push_record(number))
            writer.commit()
    with closing(SqlitePushLogReader(small_log(data.push_log), "collector")) as reader:
        batch = poll(reader, max_records=1)
        assert batch is not None
        reader.commit(batch)
    directory = f"log.dirs={tmp_path}"
    assert unread_logs(load_config(None, overrides=(*KAFKA, directory))) == {
        data.push_log: 2,
        data.worker(3).push_log: 3,
    }
    assert unread_logs(load_config(None, overrides=(directory,))) == {}


def test_the_topic_of_the_state_has_one_compacted_partition_at_the_same_cluster() -> None:
    servers = "push.log.kafka.bootstrap.servers=broker1:9092,broker2:9092"
    options = ("state.store=kafka", servers, "push.log.kafka.topic.replication.factor=3")
    config = load_config(overrides=(*options, "push.log.kafka.client.security.protocol=SSL"))
    assert config.push_log == "sqlite"
    settings = state_topic_settings(config)
    assert (settings.topic, settings.partitions, settings.cleanup_policy) == ("fleetgauge-state", 1, "compact")
    assert (settings.bootstrap_servers, settings.replication_factor) == ("broker1:9092,broker2:9092", 3)
    assert settings.client == {"security.protocol": "SSL"}
    with pytest.raises(ConfigError, match=r"state\.store=kafka needs push\.log\.kafka\.bootstrap\.servers"):
        load_config(overrides=("state.store=kafka",))
    with pytest.raises(ConfigError, match="name two topics"):
        load_config(overrides=(*options, "state.topic=fleetgauge-pushes"))

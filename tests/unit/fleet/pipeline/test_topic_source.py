"""What `--source kafka://...` and its options may look like."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetgauge.cli.fleet.app import app
from fleetgauge.fleet.errors import SourceError
from fleetgauge.fleet.source.topic.source import TopicSource, parse_source


def test_a_topic_is_named_by_its_bootstrap_servers_and_its_name() -> None:
    source = parse_source("kafka://a.example:9092,[::1]:19092/fleetgauge-pushes", ["security.protocol=SSL"])
    assert source == TopicSource(
        bootstrap_servers="a.example:9092,[::1]:19092",
        topic="fleetgauge-pushes",
        options={"security.protocol": "SSL"},
    )
    assert str(source) == "kafka://a.example:9092,[::1]:19092/fleetgauge-pushes"


def test_whatever_is_no_topic_is_a_landing_zone() -> None:
    assert [parse_source(text) for text in ("./landing", "s3a://lake/pushes")] == ["./landing", "s3a://lake/pushes"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("kafka://", "bootstrap server '' is not host:port"),
        ("kafka://broker/topic", "host:port in 'broker'"),
        ("kafka://broker:0/topic", "host:port in 'broker:0'"),
        ("kafka://a:1,/topic", "host:port in ''"),
        ("kafka://user:secret@a:1/topic", "host:port in 'user:secret@a:1'"),
        ("kafka://a:9092", "has no valid topic name"),
        ("kafka://a:9092/", "has no valid topic name"),
        ("kafka://a:9092/..", "has no valid topic name"),
        ("kafka://a:9092/topic/more", "has no valid topic name"),
        ("kafka://a:9092/topic?x=y", "has no valid topic name"),
    ],
)
def test_an_address_in_no_known_form_is_refused_with_the_form(text: str, sentence: str) -> None:
    with pytest.raises(SourceError) as refused:
        parse_source(text)
    assert sentence in str(refused.value)
    assert "give kafka://host:port[,host:port]/topic" in str(refused.value)


@pytest.mark.parametrize("option", ["security.protocol", "=SSL", "kafka.=x"])
def test_an_option_without_key_or_value_is_refused(option: str) -> None:
    with pytest.raises(SourceError, match="has the form key=value"):
        parse_source("kafka://a:9092/t", [option])


def test_an_option_keeps_every_equals_sign_of_its_value() -> None:
    source = parse_source("kafka://a:9092/t", ['kafka.sasl.jaas.config=X required password="a=b";'])
    assert isinstance(source, TopicSource)
    assert source.options == {"sasl.jaas.config": 'X required password="a=b";'}
    assert "a=b" not in repr(source)


def test_bootstrap_servers_have_one_place() -> None:
    with pytest.raises(SourceError, match="is part of --source"):
        parse_source("kafka://a:9092/t", ["bootstrap.servers=b:9092"])


def test_client_settings_for_a_landing_zone_are_refused() -> None:
    with pytest.raises(SourceError, match=r"and \./landing is not a topic"):
        parse_source("./landing", ["security.protocol=SSL"])


def test_a_settings_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    missing = tmp_path / "client.properties"
    result = CliRunner().invoke(app, ["inventory", "--source", "kafka://a:9092/t", "--kafka-config", str(missing)])
    assert result.exit_code == 2
    assert f"cannot read the settings of Kafka's client in {missing}" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_the_command_line_refuses_a_bad_address_before_anything_starts() -> None:
    result = CliRunner().invoke(app, ["rejects", "--source", "kafka://a/t"])
    assert result.exit_code == 2
    assert "bootstrap server 'a' is not host:port" in result.stderr

"""Configuration: sources, their order, and what a wrong key or value says."""

from pathlib import Path

import pytest

from fleetgauge.node.config import ConfigError, Endpoint, load_config
from fleetgauge.node.config.console import console_job


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "fleetgauge.toml"
    file.write_text(text)
    return file


def test_defaults_listen_on_loopback_and_ask_for_everything_every_minute() -> None:
    config = load_config()
    assert config.listeners == (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
    assert config.client_metrics == {"default": {"metrics": "*", "interval.ms": "60000"}}
    assert config.exporters == {"landing": {"type": "landing", "path": str(Path("fleetgauge-data/landing").absolute())}}
    assert config.telemetry_max_bytes == 1_048_576


@pytest.mark.parametrize("name", ["production", "first_deployment", "gateway", "image"])
def test_an_example_configuration_is_accepted(name: str) -> None:
    assert load_config(Path(__file__).parents[4] / "examples" / f"{name}.toml").http_listeners


def test_nested_tables_are_joined_by_dots(tmp_path: Path) -> None:
    file = write(tmp_path, 'push.log.type = "sqlite"\n[push.log.retention]\nms = 5000\n[node]\nid = 7\n')
    config = load_config(file)
    assert (config.push_log_retention_ms, config.node_id) == (5000, 7)


def test_overrides_win_over_environment_which_wins_over_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "[node]\nid = 1\n[telemetry.max]\nbytes = 100\n")
    environment = {"FLEETGAUGE_NODE_ID": "2", "FLEETGAUGE_TELEMETRY_MAX_BYTES": "200", "HOME": "/"}
    config = load_config(file, environment=environment, overrides=["node.id=3"])
    assert (config.node_id, config.telemetry_max_bytes) == (3, 200)


def test_environment_names_follow_the_convention_of_kafkas_images() -> None:
    environment = {
        "FLEETGAUGE_CLIENT___METRICS_TEAM__A_INTERVAL_MS": "1000",
        "FLEETGAUGE_CLIENT___METRICS_TEAM__A_METRICS": "org.apache.kafka.producer.",
    }
    config = load_config(environment=environment)
    assert config.client_metrics == {"team_a": {"interval.ms": "1000", "metrics": "org.apache.kafka.producer."}}


@pytest.mark.parametrize("name", ["COMPILE", "CACHE", "EXPLORE", "PATIENCE"])
def test_a_variable_of_the_installation_or_the_tests_is_no_key(name: str) -> None:
    assert load_config(environment={f"FLEETGAUGE_{name}": "0"}) == load_config()


def test_an_override_of_one_key_of_the_default_subscription_leaves_the_others(tmp_path: Path) -> None:
    override = ["client-metrics.default.interval.ms=5000"]
    kept = {"default": {"metrics": "*", "interval.ms": "5000"}}
    assert load_config(overrides=override).client_metrics == kept
    assert load_config(write(tmp_path, "node.id = 7\n"), overrides=override).client_metrics == kept
    variable = {"FLEETGAUGE_CLIENT___METRICS_DEFAULT_METRICS": "org.apache.kafka.producer."}
    assert load_config(environment=variable, overrides=override).client_metrics == {
        "default": {"metrics": "org.apache.kafka.producer.", "interval.ms": "5000"}
    }


def test_nothing_is_added_to_the_subscriptions_of_a_file_or_of_another_name(tmp_path: Path) -> None:
    file = write(tmp_path, "[client-metrics.default]\ninterval.ms = 1000\n")
    assert load_config(file).client_metrics == {"default": {"interval.ms": "1000"}}
    others = ["client-metrics.mine.metrics=a.", "client-metrics.default.interval.ms=5000"]
    assert load_config(overrides=others[:1]).client_metrics == {"mine": {"metrics": "a."}}
    assert load_config(overrides=others).client_metrics == {
        "mine": {"metrics": "a."},
        "default": {"interval.ms": "5000"},
    }


def test_subscriptions_take_toml_lists_and_names_with_dots(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        '[client-metrics."all.java"]\nmetrics = ["a.", "b."]\nmatch = ["client_software_name=apache-kafka-java"]\n',
    )
    assert load_config(file).client_metrics == {
        "all.java": {"metrics": "a.,b.", "match": "client_software_name=apache-kafka-java"}
    }


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["telemetry.max.byte=1"], ["telemetry.max.byte", "did you mean telemetry.max.bytes", "--override"]),
        (["telemetry.max.bytes=lots"], ["telemetry.max.bytes", "'lots'", "integer"]),
        (["telemetry.max.bytes=0"], ["telemetry.max.bytes", "greater than or equal to 1"]),
        (["push.log.flush=always"], ["push.log.flush", "'os' or 'fsync'"]),
        (["listeners=127.0.0.1:9092"], ["listeners", "NAME://host:port"]),
        (["listeners=PLAINTEXT://127.0.0.1:99999"], ["listeners", "65535"]),
        (["listeners=A://h:1,A://h:2"], ["its own name"]),
        (["listeners=PLAINTEXT://0.0.0.0:9092"], ["advertised.listeners=PLAINTEXT://broker1.example.com:9092"]),
        (["advertised.listeners=OTHER://h:1"], ["advertised.listeners", "OTHER"]),
        (["telemetry.compression.types=brotli"], ["telemetry.compression.types", "zstd"]),
        (["client-metrics.a.interval.ms=50"], ["client-metrics.a", "between 100 and 3600000"]),
        (["client-metrics.a.colour=red"], ["metrics, interval.ms, match"]),
        (["client-metrics.a.match=nosuch=x"], ["Illegal client matching pattern"]),
        (["exporters.otel.type=nosuch"], ["exporters.otel", "nosuch", "otlp"]),
        (["exporters.otel.type=otlp", "exporters.otel.colour=red"], ["exporters.otel", "colour"]),
        (["no-equals-sign"], ["key=value"]),
        (["log.dirs="], ["log.dirs", "name of a directory"]),
    ],
)
def test_what_cannot_be_used_is_named_with_what_is_allowed(overrides: list[str], says: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(overrides=overrides)
    for part in says:
        assert part in str(refused.value)


def test_a_file_that_is_not_toml_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="line 1"):
        load_config(write(tmp_path, "node.id = = 1"))


def test_a_key_that_is_also_a_prefix_gets_the_hint_about_quotes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="quotes"):
        load_config(write(tmp_path, 'push.log = "sqlite"\npush.log.flush = "os"\n'))


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the configuration file"):
        load_config(tmp_path / "nowhere.toml")


def test_an_unknown_environment_variable_with_our_prefix_stops_the_start() -> None:
    with pytest.raises(ConfigError, match="FLEETGAUGE_NODE_IDD"):
        load_config(environment={"FLEETGAUGE_NODE_IDD": "1"})


def test_truth_is_no_number(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"node\.id.*True.*a number is needed"):
        load_config(write(tmp_path, "node.id = true\n"))


def test_what_is_printed_is_a_configuration_of_the_same_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from fleetgauge.cli.node.show_config import show_config
    from fleetgauge.cli.options import ConfigOptions

    show_config(ConfigOptions())
    printed = capsys.readouterr().out
    file = tmp_path / "printed.toml"
    file.write_text(printed)
    show_config(ConfigOptions(config=file))
    assert capsys.readouterr().out == printed
    assert "None" not in printed


def test_secrets_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    from fleetgauge.cli.node.show_config import show_config
    from fleetgauge.cli.options import ConfigOptions

    overrides = [
        "exporters.o.type=otlp",
        "exporters.o.endpoint=http://h:1",
        "exporters.o.headers.authorization=Bearer 42",
    ]
    show_config(ConfigOptions(override=overrides))
    printed = capsys.readouterr().out
    assert "Bearer" not in printed
    assert 'headers.authorization = "[hidden]"' in printed


def test_the_console_gets_its_rules_and_cpu_or_a_sentence_about_a_file_that_is_not_there(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    config = load_config(overrides=[f"console.rules.file={rules}", "console.decode.cores=1.5"])
    with pytest.raises(ConfigError, match=r"console\.rules\.file: there is no file .*rules\.toml; create one with"):
        console_job(config, "serve")
    rules.write_text("[outdated]\nenabled = false\n")
    job = console_job(config, "serve")
    assert (job["rules"], job["decode_cores"]) == (rules, 1.5)
    assert console_job(load_config(), "serve")["rules"] is None
    with pytest.raises(ConfigError, match=r"console\.decode\.cores"):
        load_config(overrides=["console.decode.cores=0"])


@pytest.mark.parametrize(
    ("file", "overrides"),
    [
        ('"push.log" = "kafka"\n"push.log.kafka.topic" = "pushes"\n', ()),
        ('push.log.type = "kafka"\npush.log.kafka.topic.name = "pushes"\n', ()),
        ("", ("push.log=kafka", "push.log.kafka.topic=pushes")),
    ],
)
def test_keys_that_were_prefixes_of_others_are_read_in_both_forms(
    tmp_path: Path, file: str, overrides: tuple[str, ...]
) -> None:
    config = load_config(
        write(tmp_path, f'push.log.kafka.bootstrap.servers = "b:9092"\n{file}'), overrides=list(overrides)
    )
    assert (config.push_log, config.push_log_kafka_topic) == ("kafka", "pushes")


def test_both_forms_of_a_key_in_one_file_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"push\.log\.type .*is set twice"):
        load_config(write(tmp_path, '"push.log" = "kafka"\n"push.log.type" = "kafka"\n'))


def test_a_node_whose_pushes_go_to_a_topic_asks_no_client_for_metrics_unless_it_is_told_to() -> None:
    topic = ["push.log.type=kafka", "push.log.kafka.bootstrap.servers=b:9092"]
    assert load_config(overrides=topic).client_metrics == {}
    told = load_config(overrides=[*topic, "client-metrics.own.metrics=*"])
    assert told.client_metrics == {"own": {"metrics": "*"}}

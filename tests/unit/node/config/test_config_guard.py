"""`[client-guard.<name>]` in the configuration."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetgauge.cli import app
from fleetgauge.node.config import ConfigError, load_config
from fleetgauge.telemetry.subscriptions.known_clients import guard_rules

RULES = """
[client-guard.librdkafka-crash]
enabled = false

[client-guard."my.app"]
software = "my-app"
versions = ">=1.2, <1.4"
action = "rewrite"
metrics = ["org.apache.kafka.producer.", ""]
compression = "gzip,none"
reason = "its consumer leaks"
"""


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "fleetgauge.toml"
    file.write_text(text)
    return file


def test_rules_are_read_from_the_file_and_from_the_environment(tmp_path: Path) -> None:
    environment = {"FLEETGAUGE_CLIENT___GUARD_MINE_SOFTWARE": "x", "FLEETGAUGE_CLIENT___GUARD_MINE_ACTION": "note"}
    rules = {
        rule.name: rule
        for rule in guard_rules(load_config(write(tmp_path, RULES), environment=environment).client_guard)
    }
    assert "librdkafka-crash" not in rules
    mine = rules["my.app"]
    assert (mine.metrics, [each.label for each in mine.compression_types or ()]) == (
        ("", "org.apache.kafka.producer."),
        ["gzip", "none"],
    )
    assert (mine.versions.text, mine.reason, rules["mine"].software) == (">=1.2, <1.4", "its consumer leaks", "x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[client-guard.a]\nsoftware = "x"\naction = "mute"\n',
            "client-guard.a .*action is 'mute', and has to be one of",
        ),
        ('[client-guard.a]\naction = "note"\n', "software is missing; only changes of built-in rules may omit it"),
        ('client-guard.action = "note"\n', r"a rule of the client guard is a table, \[client-guard.<name>\]"),
        ('[client-gaurd.a]\nsoftware = "x"\n', r"is not a configuration key"),
    ],
)
def test_a_bad_rule_stops_the_start_and_names_the_file(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as error:
        load_config(write(tmp_path, text))
    assert "fleetgauge.toml" in str(error.value)


def test_what_config_prints_is_read_back_as_the_same_rules(tmp_path: Path) -> None:
    file = write(tmp_path, RULES)
    printed = CliRunner().invoke(app, ["config", "--config", str(file)]).stdout
    again = load_config(write(tmp_path, printed))
    assert guard_rules(again.client_guard) == guard_rules(load_config(write(tmp_path, RULES)).client_guard)

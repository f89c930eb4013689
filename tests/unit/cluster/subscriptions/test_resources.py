"""Files of subscriptions, and resources as a cluster describes them."""

from pathlib import Path

import pytest

from fleetgauge.base.errors import ConfigError
from fleetgauge.cli.cluster.resource_file import read_file
from fleetgauge.cluster.errors import ResourceError
from fleetgauge.cluster.subscriptions.resources import SUBSCRIPTIONS, Resource, named, resource_of


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "subscriptions.toml"
    file.write_text(text)
    return file


def test_a_file_has_the_tables_of_a_nodes_configuration(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        '[client-metrics.orders]\nmetrics = ["b.", "a."]\ninterval.ms = 30000\nmatch = "client_id=orders-.*"\n'
        '[client-metrics."with.dots"]\nmetrics = "*"\n',
    )
    assert read_file(file, SUBSCRIPTIONS) == {
        "orders": Resource(name="orders", metrics=("a.", "b."), interval_ms=30_000, match="client_id=orders-.*"),
        "with.dots": Resource(name="with.dots", metrics=("*",)),
    }


def test_a_resource_is_the_same_whatever_its_order_and_white_space() -> None:
    one = resource_of("x", {"metrics": "b, a,b", "match": "client_id=a , client_software_name=b"})
    other = resource_of("x", {"metrics": "a,b", "match": "client_id=a,client_software_name=b", "interval.ms": "300000"})
    assert one == other
    assert other.properties() == {"metrics": "a,b", "match": "client_id=a,client_software_name=b"}


def test_a_pattern_of_java_that_re2_does_not_take_is_read_from_a_cluster() -> None:
    assert resource_of("x", {"metrics": "*", "match": "client_id=(?!a).*"}).match == "client_id=(?!a).*"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '[client-metrics.a]\nmetric = "*"',
            ["client-metrics.a.metric", "metrics, interval.ms, match", "mean metrics"],
        ),
        ('[client-metric.a]\nmetrics = "*"', ["client-metric.a.metrics", "[client-metrics.NAME]"]),
        ('metrics = "*"', ["metrics is not about subscriptions"]),
        ('client-metrics = "*"', ["client-metrics is not a key"]),
        ('[client-metrics.a]\nmetrics = "*"\ninterval.ms = 50', ["[client-metrics.a]", "between 100 and 3600000"]),
        ('[client-metrics.a]\nmetrics = "*"\ninterval.ms = "soon"', ["Not a number"]),
        ('[client-metrics.a]\nmetrics = "*"\nmatch = "client_id=["', ["matching pattern: client_id=[", "RE2"]),
        ('[client-metrics.a]\nmetrics = "*"\nmatch = "client_id=(?!a).*"', ["without lookaround"]),
        ('[client-metrics.a]\nmetrics = "*"\nmatch = "id=a"', ["matching pattern: id=a", "client_source_port"]),
        ('[client-metrics.a]\nmetrics = ""', ["[client-metrics.a] sets nothing"]),
        ('[client-metrics."a.canary"]\nmetrics = "*"', ["made by fleetgauge subscriptions canary"]),
        ('[client-metrics."a.until.20261123T184500Z"]\nmetrics = "*"', ["choose another name"]),
        (f'[client-metrics.{"a" * 100_000}]\nmetrics = "*"\ninterval.ms = 1', ["aaa..."]),
    ],
)
def test_what_is_wrong_with_a_file_is_one_sentence(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(ResourceError) as raised:
        read_file(written(tmp_path, text), SUBSCRIPTIONS)
    message = str(raised.value)
    assert "\n" not in message
    assert len(message) < 1_000
    assert [word for word in words if word not in message] == []


def test_what_is_no_toml_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not valid TOML"):
        read_file(written(tmp_path, "[client-metrics]\n["), SUBSCRIPTIONS)


def test_an_unknown_name_names_the_nearest() -> None:
    with pytest.raises(ResourceError, match="did you mean orders"):
        named({name: Resource(name=name) for name in ("orders", "billing")}, "order")

"""What the start of a node says of its subscriptions."""

from pathlib import Path

import pytest

from fleetgauge.node.config.load import load_config
from fleetgauge.node.serving import subscription_lines

BUILT_IN = " (built in, for trying out: all clients push all metrics)"
GATEWAY = "gateway.broker=kafka:9092"


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (
            [],
            "  subscription  default: metrics=*, interval.ms=60000" + BUILT_IN,
        ),
        (["client-metrics.default.interval.ms=1000"], "  subscription  default: metrics=*, interval.ms=1000"),
        (["client-metrics.own.metrics=a."], "  subscription  own: metrics=a."),
        ([GATEWAY], "  subscription  none: no client pushes; add [client-metrics.<name>] to the configuration"),
        ([GATEWAY, "gateway.telemetry=pass"], ""),
    ],
)
def test_the_built_in_subscription_is_named_in_one_line_and_so_is_none(
    tmp_path: Path, overrides: list[str], line: str
) -> None:
    config = load_config(overrides=[f"log.dirs={tmp_path}", *overrides])
    assert "\n".join(subscription_lines(config)) == line

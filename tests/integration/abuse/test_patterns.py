"""Subscriptions with pathological patterns: refused at the start with a clear sentence, or matched in linear time."""

import subprocess
import sys
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from support.clients.abuse import answer_of, connections
from support.clients.raw_client import get_request, parse_get
from support.programs.node import Node
from support.waiting import PATIENCE_S

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]  # long in make soak, on a busy machine
MIB = 1024 * 1024
Attacked = Callable[..., AbstractContextManager[Node]]

SLOW_ELSEWHERE = [
    r"(a|aa)+$",
    r"(a*)*b",
    r"(x+x+)+y",
    r".*a.{400}",
    r"(.*)(.*)(.*)(.*)(.*)[^a]",
    r"(?i)a.*b.*c.*d.*e.*f",
]
TOO_LARGE = [r"((a{100}){100}){100}", r"\pL{1000}", r"a{1001}"]


def configuration(patterns: list[str]) -> str:
    tables = [
        f'[client-metrics.s{number}]\nmetrics = "*"\n"interval.ms" = "100"\nmatch = \'\'\'client_id="{pattern}"\'\'\'\n'
        for number, pattern in enumerate(patterns)
    ]
    return '[client-metrics.all]\nmetrics = "*"\n"interval.ms" = "100"\n' + "".join(tables)


@pytest.mark.parametrize("ids", [200, pytest.param(5_000, marks=pytest.mark.soak)])
def test_patterns_that_explode_elsewhere_are_matched_in_linear_time(attacked: Attacked, ids: int) -> None:
    longest = "a" * 32_000
    config = configuration(SLOW_ELSEWHERE)
    with attacked(most_bytes=128 * MIB, config=config) as node, connections(node.port, 1) as (connection,):
        for number in range(ids):
            connection.sendall(get_request(number, uuid.uuid4(), longest))
            assert parse_get(answer_of(connection)[5:]).push_interval_ms == 100


@pytest.mark.parametrize("pattern", TOO_LARGE, ids=["nested repeats", "large class", "long repeat"])
def test_a_pattern_that_is_too_large_stops_the_start_with_a_clear_sentence(pattern: str, tmp_path: Path) -> None:
    file = tmp_path / "fleetgauge.toml"
    file.write_text(configuration([pattern]))
    command = [sys.executable, "-m", "fleetgauge", "serve", "--config", str(file)]
    ended = subprocess.run(
        [*command, "--override", f"log.dirs={tmp_path / 'data'}", "--override", "listeners=PLAINTEXT://127.0.0.1:0"],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    said = " ".join((ended.stdout + ended.stderr).split())
    assert ended.returncode != 0
    assert "Illegal client matching pattern" in said
    assert "Traceback" not in said

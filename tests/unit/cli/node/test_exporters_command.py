"""`fleetgauge status --exporters` says of the exporter process what its figures cannot: their age."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from support.waiting import PATIENCE_S
from typer.testing import CliRunner

from fleetgauge.cli import app
from fleetgauge.cli.node.status_text import last_error
from fleetgauge.exporters.delivery.histogram import FRESHNESS_BOUNDS_S, Histogram
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.status.node_socket import RelaySocket


@contextmanager
def node(data: Path, **process: Any) -> Iterator[None]:
    """Something that answers as a node does whose exporter process is like this."""
    child = {"wanted": True, "pid": 4_711, "restarts": 0, "status_age_ms": 400, "exporters": {}, **process}
    found = {"node": {}, "push_log": {}, "exporter_process": child}
    server = RelaySocket(DataDirectory(data).node_socket, lambda: found, Path("none"), "away")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(), loop).result(PATIENCE_S)
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()


def said(data: Path, *options: str, **process: Any) -> str:
    with node(data, **process):
        result = CliRunner(env={"COLUMNS": "200"}).invoke(
            app, ["status", "--exporters", "--log-dirs", str(data), *options]
        )
    assert result.exit_code == 0, result.output
    return result.stdout


def test_before_its_first_word_the_process_is_named_and_no_empty_table_is_shown(tmp_path: Path) -> None:
    text = said(tmp_path)
    assert "pid 4711" in text
    assert "has said nothing" not in text
    assert "the exporter process has not reported its status yet" in text


def test_a_process_that_is_silent_or_gone_is_said_to_be(tmp_path: Path) -> None:
    assert "pid 4711, no status for 1.5 min" in said(tmp_path, status_age_ms=90_000)
    gone = said(tmp_path, pid=None, restarts=3, status_age_ms=20_000)
    assert "not running, started again 3 times, no status for 20.0 s" in gone


def test_a_last_error_is_told_with_its_time_and_when_it_was_over() -> None:
    now_us = int(time.time() * 1e6)
    failed = {"last_error": "unavailable: refused", "last_error_at": now_us - 600_000_000, "last_error_over_at": None}
    assert last_error(failed) == "unavailable: refused (10.0 min ago)"
    failed["last_error_over_at"] = now_us - 300_000_000
    assert last_error(failed) == "unavailable: refused (10.0 min ago, over 5.0 min ago)"


def test_as_json_the_process_is_told_with_the_age_of_its_words(tmp_path: Path) -> None:
    [told] = json.loads(said(tmp_path, "--format", "json", restarts=1))
    assert told["exporter_process"] == {"pid": 4_711, "restarts": 1, "status_age_ms": 400}


def test_a_quantile_is_never_above_the_largest_value(tmp_path: Path) -> None:
    """It is estimated within a bucket that ends at an hour."""
    histogram = Histogram(FRESHNESS_BOUNDS_S)
    histogram.observe([1_140.0] * 10)
    exporters = {"collector": {"freshness_s": asdict(histogram.snapshot())}}
    [told] = json.loads(said(tmp_path, "--format", "json", exporters=exporters))
    assert told["exporters"]["collector"]["freshness_quantiles_s"] == {"p50": 1_140.0, "p99": 1_140.0}

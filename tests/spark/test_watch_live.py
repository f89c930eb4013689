"""`fleet watch` as a process of its own: a new file is read while it runs, and SIGTERM ends it cleanly."""

import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.killed_runs import QUICK_JVM, QUICK_SPARK

from fleet.errors import JavaError
from fleet.session import check_java
from tests.spark.landing_zone import NOON_US, LandingZone, push
from tests.unit.fleet import dialect_payloads as dialect

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]  # waits for a real trigger and its end

S = 1_000_000
WITHIN_S = 400


def slow(zone: LandingZone, name: str, at_s: int, latency_max: float) -> None:
    """One push; as the exporter does, the file is there whole or not at all."""
    payload = dialect.java_producer({"node-1": latency_max / 2})
    row = push(payload, received_at=NOON_US + at_s * S, push_interval_ms=60_000, client_id="checkout\x1b[2J")
    hidden = zone.write([row], name=f"_{name}")
    hidden.rename(hidden.with_name(f"{name}.parquet"))


def test_a_running_watch_says_what_opens_and_clears_and_ends_cleanly_on_sigterm(
    zone: LandingZone, tmp_path: Path
) -> None:
    try:
        check_java()
    except JavaError as error:
        pytest.skip(str(error))
    rules = tmp_path / "rules.toml"
    rules.write_text('[rules.slow]\nmetric = "org.apache.kafka.producer.node.request.latency.max"\nabove = 5000\n')
    slow(zone, "part-0", 0, 6_000)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "fleet.cli", "watch", "--master", "local[1]", *QUICK_SPARK),
            *("--source", str(zone.root), "--checkpoint", str(tmp_path / "checkpoint"), "--rules", str(rules)),
            *("--since", "2026-03-01", "--trigger", "200ms", "--forget-after", "30d"),
        ],
        env={**os.environ, **QUICK_JVM},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=(tmp_path / "watch.log").open("wb"),
        text=True,
    )
    assert process.stdout is not None
    lines: queue.Queue[str] = queue.Queue()
    reader = threading.Thread(target=lambda out: [lines.put(line) for line in out], args=(process.stdout,))
    reader.start()
    try:
        opened = lines.get(timeout=WITHIN_S)
        slow(zone, "part-1", 60, 10)
        cleared = lines.get(timeout=WITHIN_S)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WITHIN_S) == 0, (tmp_path / "watch.log").read_text()[-2_000:]
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()
    assert (
        "2026-03-01T12:00:00.000000Z OPEN  warning slow: org.apache.kafka.producer.node.request.latency.max" in opened
    )
    assert r"of checkout\x1b[2J is 6,000, above 5,000 [client checkout\x1b[2J" in opened, (
        "a client cannot write to the terminal"
    )
    assert "2026-03-01T12:01:00.000000Z CLEAR warning slow: " in cleared
    assert "(recovered)" in cleared
    assert lines.empty()
    assert "Error" not in (tmp_path / "watch.log").read_text()
    done = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    planned = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))
    assert [path.name for path in done] == [path.name for path in planned], "the batch under way came to its end"

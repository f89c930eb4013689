"""What real clients push to a cluster's brokers, exported, made into tables and judged while they run."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from support.broker_pipeline import PUSH_TOPIC
from support.export import Export
from support.kafka_broker import with_the_test_run
from support.landing import landed

ROOT = Path(__file__).parents[2]
RULES = ROOT / "examples" / "quick_rules.toml"
WINDOW_S = 10
PUSH_INTERVAL_MS = 2_000

Row = dict[str, Any]


class VerdictPipeline:
    """`fleetgauge export` from a cluster's push log, and `fleetgauge fleet watch` over its landing zone."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self.directory = directory
        self.landing = directory / "landing"
        config = directory / "export.toml"
        config.write_text(
            f"""
"push.log" = "kafka"
push.log.kafka.bootstrap.servers = "{bootstrap}"
push.log.kafka.topic = "{PUSH_TOPIC}"

[exporters.landing]
type = "landing"
path = "{self.landing}"
linger.ms = 500
"""
        )
        self._export = Export(directory, config)
        self._rows: dict[str, Row] = {}
        self._seen_at: dict[str, float] = {}
        self._lock = threading.Lock()
        with (directory / "watch.log").open("wb") as log:
            self._watch = subprocess.Popen(
                [
                    *with_the_test_run(),
                    *(sys.executable, "-m", "fleetgauge", "fleet", "watch", "--source", str(self.landing)),
                    *("--tables", str(directory / "fleet"), "--rules", str(RULES), "--window", f"{WINDOW_S}s"),
                    *("--late", "3s", "--trigger", "4s", "--consequences", "--format", "json"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.terminate()
        try:
            self._watch.wait(60)
        finally:
            self._watch.kill()
            self._watch.wait()
            self._reader.join()
            assert self._watch.stdout is not None
            self._watch.stdout.close()
            self._export.__exit__()

    def _read(self) -> None:
        assert self._watch.stdout is not None
        for line in self._watch.stdout:
            row = json.loads(line)
            with self._lock:
                self._seen_at.setdefault(row["id"], time.monotonic())
                self._rows[row["id"]] = row

    def rows(self) -> list[tuple[float, Row]]:
        """The verdicts that were delivered as they are now, each with when it came first (monotonic) [s]."""
        assert self._watch.poll() is None, f"the watch ended: {self.output()}"
        with self._lock:
            return [(self._seen_at[name], row) for name, row in self._rows.items()]

    def wait_for_pushes(self, client_ids: set[str], within_s: float = 300.0) -> None:
        """Waits until a push of each of these clients is in the landing zone."""
        deadline = time.monotonic() + within_s
        while missing := client_ids - {record["client_id"] for record in landed(self.landing)}:
            assert time.monotonic() < deadline, f"no push of {missing}: {self.output()}"
            time.sleep(2)

    def output(self) -> str:
        """The end of what export and watch logged."""
        return self._export.output()[-2000:] + (self.directory / "watch.log").read_text(errors="replace")[-4000:]

    def wait_for(self, condition: Callable[[list[tuple[float, Row]]], bool], within_s: float) -> bool:
        """Polls until `condition` is true of the rows; False if it is not in time."""
        deadline = time.monotonic() + within_s
        while not condition(self.rows()):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
        return True

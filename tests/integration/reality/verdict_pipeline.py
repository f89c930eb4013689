"""What real clients push to a cluster's brokers, exported, made into tables and judged while they run."""

import json
import subprocess
import threading
import urllib.request
from pathlib import Path
from typing import Any, Self

import pyarrow.parquet as pq
from integration.reality.pace import Pace
from support.brokers.broker_pipeline import PUSH_TOPIC
from support.brokers.kafka_broker import with_the_test_run
from support.ports import free_port
from support.programs.export import Export
from support.waiting import PATIENCE_S, follow, unfollow, wait_for

Row = dict[str, Any]


class VerdictPipeline:
    """`fleetgauge export` from a cluster's push log, and `fleetgauge fleet watch` over its landing zone."""

    def __init__(self, directory: Path, bootstrap: str, pace: Pace, python: Path) -> None:
        self.directory = directory
        self.landing = directory / "landing"
        config = directory / "export.toml"
        config.write_text(
            f"""
push.log.type = "kafka"
push.log.kafka.bootstrap.servers = "{bootstrap}"
push.log.kafka.topic.name = "{PUSH_TOPIC}"

[exporters.landing]
type = "landing"
path = "{self.landing}"
{pace.export}
"""
        )
        self._console = f"http://127.0.0.1:{free_port()}"
        self._export = Export(directory, config, f"http.listeners={self._console}", python=python)
        self._rows: dict[str, Row] = {}
        self._lock = threading.Lock()
        self._read_files: set[Path] = set()
        self._pushed: set[str] = set()
        self._log = directory / "watch.log"
        with self._log.open("wb") as log:
            self._watch = subprocess.Popen(
                [
                    *with_the_test_run(),
                    *(str(python), "-P", "-m", "fleetgauge", "fleet", "watch", "--source", str(self.landing)),
                    *("--tables", str(directory / "fleet"), *pace.watch, "--consequences", "--format", "json"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        follow(self._log)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        unfollow(self._log)
        self._watch.terminate()
        try:
            self._watch.wait(PATIENCE_S)
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
                self._rows[row["id"]] = row

    def rows(self) -> list[Row]:
        """The verdicts that were delivered, as they are now, in the order in which they came first."""
        assert self._watch.poll() is None, f"the watch ended: {self.output()}"
        with self._lock:
            return list(self._rows.values())

    def console_rows(self) -> list[Row]:
        """The verdicts that the console of the export shows as open; none while it does not answer."""
        try:
            with urllib.request.urlopen(f"{self._console}/api/verdicts?state=open", timeout=PATIENCE_S) as answer:
                found: list[Row] = json.load(answer)["verdicts"]
        except OSError:
            return []
        return found

    def wait_for_pushes(self, client_ids: set[str]) -> None:
        """Waits until a push of each of these clients is in the landing zone."""
        for client_id in sorted(client_ids):  # whose processes may start one after the other
            wait_for(self._clients_that_pushed, f"a push of {client_id}", until={client_id}.issubset)

    def _clients_that_pushed(self) -> set[str]:
        """Client ids in the landing zone; reads only the files that came since the last call."""
        for path in set(self.landing.glob("date=*/hour=*/[!_.]*.parquet")) - self._read_files:
            self._pushed.update(map(str, pq.ParquetFile(path).read(columns=["client_id"])["client_id"].to_pylist()))
            self._read_files.add(path)
        return self._pushed

    def output(self) -> str:
        """The end of what export and watch logged."""
        return self._export.output()[-2000:] + self._log.read_text(errors="replace")[-4000:]

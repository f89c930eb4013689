"""A real Prometheus that scrapes one page every second; needs Debian's package `prometheus`."""

import json
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode
from urllib.request import urlopen

from support.ports import free_port

MISSING = "" if shutil.which("prometheus") else "needs a Prometheus: apt-get install --no-install-recommends prometheus"
FIRST_SAMPLE_WITHIN_S = 180.0
"""It looks for its targets every 5 s."""


class PrometheusServer:
    """Scrapes `target` (host:port) under /metrics, and evaluates the rules of a file every second.

    `jobs` are scrape configurations in its place, each YAML in one line.
    """

    def __init__(self, directory: Path, target: str, rules: Path | None = None, *, jobs: Sequence[str] = ()) -> None:
        self.port = free_port()
        self.log = directory / "prometheus.log"
        config = directory / "prometheus.yml"
        only = f"{{job_name: clients, static_configs: [{{targets: ['{target}']}}]}}"
        config.write_text(
            "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
            f"rule_files: [{rules or ''}]\n"
            f"scrape_configs: [{', '.join(jobs or [only])}]\n"
        )
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={config}",
                    f"--storage.tsdb.path={directory / 'tsdb'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def ask(self, path: str, **query: str) -> Any:
        """The data that the API answers with; raises OSError where it refuses."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urlencode(query)}"
        with urlopen(url, timeout=60) as response:
            return json.load(response)["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series that the expression gives now."""
        try:
            found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        except OSError:
            assert self.process.poll() is None, self.log.read_text()
            return []  # not yet up
        return [(each["metric"], float(each["value"][1])) for each in found]

    def wait_for(
        self, expression: str, expected: float | None = None, within_s: float = FIRST_SAMPLE_WITHIN_S
    ) -> list[tuple[dict[str, str], float]]:
        """Polls until the expression gives something; with `expected`, until all it gives is that."""
        deadline = time.monotonic() + within_s
        found: list[tuple[dict[str, str], float]] = []
        while time.monotonic() < deadline:
            found = self.query(expression)
            if found and (expected is None or all(value == expected for _, value in found)):
                return found
            time.sleep(0.2)
        wanted = "known" if expected is None else expected
        raise AssertionError(f"{expression} does not become {wanted}: {found}\n{self.log.read_text()[-2000:]}")

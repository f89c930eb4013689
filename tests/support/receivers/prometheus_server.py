"""A real Prometheus that scrapes one page every second; needs Debian's package `prometheus`."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode
from urllib.request import urlopen

from support.ports import free_port
from support.waiting import PATIENCE_S, follow, unfollow, wait_for

MISSING = "" if shutil.which("prometheus") else "needs a Prometheus: apt-get install --no-install-recommends prometheus"


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
        follow(self.log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        unfollow(self.log)
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def ask(self, path: str, **query: str) -> Any:
        """The data that the API answers with; raises OSError where it refuses."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urlencode(query)}"
        with urlopen(url, timeout=PATIENCE_S) as response:
            return json.load(response)["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series that the expression gives now."""
        try:
            found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        except OSError:
            assert self.process.poll() is None, self.log.read_text()
            return []  # not yet up
        return [(each["metric"], float(each["value"][1])) for each in found]

    def wait_for(self, expression: str, expected: float | None = None) -> list[tuple[dict[str, str], float]]:
        """What the expression gives, once that is something; with `expected`, once all it gives is that."""

        def is_expected(found: list[tuple[dict[str, str], float]]) -> bool:
            return bool(found) and (expected is None or all(value == expected for _, value in found))

        wanted = "something" if expected is None else expected
        return wait_for(lambda: self.query(expression), f"{expression} to give {wanted}", until=is_expected)

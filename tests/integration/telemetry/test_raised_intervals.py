"""A push interval that is raised: clients of a real broker that wait for it are neither absent nor silent anywhere."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.brokers.broker_pipeline import PUSH_TOPIC, broker_with_plugin, url_of
from support.brokers.kafka_broker import MISSING, KafkaBroker
from support.http import get_url
from support.ports import free_port
from support.programs.export import Export
from support.programs.node import run_cli
from support.waiting import PATIENCE_S, ticking, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(MISSING), reason=MISSING)]

WAYS = ("delete", "expire", "apply", "canary")
STEADY = {f"steady-{number}" for number in range(2 * len(WAYS))}
"""As many as the others: where fewer than half push, it is the receiver that is silent."""
STAY, KILLED = ({f"{fate}-{way}" for way in WAYS} for fate in ("stays", "killed"))
SHORT_MS, LONG_MS = 5_000, 50_000
PRODUCERS = """
import sys
from confluent_kafka import Producer
common = {"bootstrap.servers": sys.argv[1], "debug": "telemetry"}
made = [Producer({**common, "client.id": each}) for each in sys.argv[2:]]
sys.stdin.read()
"""


def subscription(name: str, match: str = "", interval_ms: int = SHORT_MS) -> str:
    lines = [f"[client-metrics.{name}]", 'metrics = "*"', f"interval.ms = {interval_ms}"]
    return "\n".join([*lines, f'match = "client_id={match}"\n' if match else ""])


@contextmanager
def producers(broker: KafkaBroker, client_ids: set[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Producers of librdkafka in a process of their own, which may be killed."""
    command = [sys.executable, "-c", PRODUCERS, broker.bootstrap, *sorted(client_ids)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE_S)
        assert process.stdin is not None
        process.stdin.close()


@dataclass(frozen=True)
class Shown:
    """What an export shows of the clients, by client id; what was read first is never older.

    Attributes:
        page: those with series on its page for Prometheus.
        console, listed: rows of the console and of the inventory.
        read_up_to: when the inventory had read the topic [us since the epoch].
        silent: verdicts.
    """

    page: set[str]
    console: dict[str, dict[str, Any]]
    listed: dict[str, dict[str, Any]]
    read_up_to: int
    silent: list[dict[str, Any]]

    @property
    def present(self) -> set[str]:
        """Those that are there for all of them."""
        there = [
            {name for name, row in rows.items() if row["state"] in ("live", "late")}
            for rows in (self.console, self.listed)
        ]
        return self.page.intersection(*there)

    def __str__(self) -> str:
        """Of each client whether it is on the page, its states, its interval, and how long it has been quiet [s]."""
        return "\n".join(
            f"{name}: {name in self.page} {self.console.get(name, {}).get('state')} {row['state']} "
            f"{row['push_interval_ms']} {(self.read_up_to - row['last_push_at']) / 1e6:.1f}"
            for name, row in sorted(self.listed.items())
        )


class Exported:
    """A running export with a page for Prometheus and the console."""

    def __init__(self, export: Export, page: str) -> None:
        self._export, self._page, self._url = export, f"http://{page}", url_of(export)

    def look(self) -> Shown:
        assert self._export.process.poll() is None, self._export.output()
        listed = get_url(self._url, "/clients", limit="1000").json()
        console = get_url(self._url, "/api/clients", limit="1000").json()["clients"]
        verdicts = get_url(self._url, "/api/verdicts", state="all").json()["verdicts"]
        return Shown(
            page=set(re.findall(r'client_id="([^"]*)"', get_url(self._page, "/metrics").body.decode())),
            console={each["client_id"]: each for each in console},
            listed={each["client_id"]: each for each in listed["clients"]},
            read_up_to=listed["coverage"]["read_up_to"] or 0,
            silent=[each for each in verdicts if each["verdict"] == "silent"],
        )


def raise_intervals(broker: KafkaBroker, export: Export, directory: Path) -> None:
    """Takes back the short intervals, in every way that there is."""

    def run(command: str, *arguments: str) -> None:
        run_cli("subscriptions", command, *arguments, "--bootstrap-server", broker.bootstrap, "--yes")

    slower = directory / "slower.toml"
    slower.write_text(subscription("apply", "[a-z]+-apply", LONG_MS))
    tool = "org.apache.kafka.tools.ClientMetricsCommand"
    run("expire", "1s", "expire")
    broker.tool(tool, "--bootstrap-server", broker.bootstrap, "--delete", "--name", "delete")
    run("apply", "-f", str(slower))
    run("canary", "canary", "--abort")
    wait_for(
        lambda: export.status()["exporter_process"]["subscription_deadlines"]["taken_back"],
        "the subscription that was due to be taken back",
        ignoring=(ValueError, KeyError),
    )


def test_clients_that_wait_for_a_raised_interval_are_neither_absent_nor_silent(tmp_path: Path) -> None:
    page, config, file = f"127.0.0.1:{free_port()}", tmp_path / "export.toml", tmp_path / "subscriptions.toml"
    short = [subscription(way, f"[a-z]+-{way}") for way in WAYS]
    file.write_text("\n".join([subscription("all", "", LONG_MS), subscription("steady", "steady-.*"), *short[:-1]]))
    canary = tmp_path / "canary.toml"
    canary.write_text(short[-1])
    with broker_with_plugin(tmp_path / "kafka", "4.3.1") as broker:
        config.write_text(
            f'push.log.type = "kafka"\npush.log.kafka.bootstrap.servers = "{broker.bootstrap}"\n'
            f'push.log.kafka.topic.name = "{PUSH_TOPIC}"\nhttp.listeners = "http://127.0.0.1:0"\n'
            f'[exporters.page]\ntype = "prometheus"\nlisten = "{page}"\n'
        )
        at = ("--bootstrap-server", broker.bootstrap, "--yes")
        run_cli("subscriptions", "apply", "-f", str(file), *at)
        run_cli("subscriptions", "canary", "99.98%", "canary", "-f", str(canary), "--intervals", "0", *at)
        with (
            producers(broker, STAY | STEADY, tmp_path / "stay.log"),
            producers(broker, KILLED, tmp_path / "killed.log") as killed,
            Export(tmp_path, config) as export,
        ):
            wait_for(lambda: url_of(export), "HTTP", ignoring=(ValueError, KeyError, IndexError))
            exported = Exported(export, page)
            wait_for(
                exported.look,
                "every client everywhere",
                until=lambda shown: shown.present == STAY | STEADY | KILLED,
                ignoring=(ValueError, KeyError, OSError),
            )
            raise_intervals(broker, export, tmp_path)
            killed.kill()

            def no_client_is_missed() -> Shown:
                shown = exported.look()
                # The inventory is read first: what is read after it may be some seconds ahead.
                early_us = shown.read_up_to - 3_000 * LONG_MS + 10**7
                waited_for = {name for name, row in shown.listed.items() if row["last_push_at"] > early_us}
                missed = waited_for - shown.present
                assert not missed, f"{missed}\n{shown}"
                assert shown.silent == []
                return shown

            for _ in ticking(2 * LONG_MS / 1_000, 1.0):  # the old interval allows a minute
                assert no_client_is_missed().present == STAY | STEADY | KILLED
            wait_for(no_client_is_missed, "the killed to be gone", until=lambda shown: not KILLED & shown.present)
            wait_for(
                exported.look,
                "the killed to be gone everywhere, and the others to be there",
                until=lambda shown: (
                    not KILLED & shown.page
                    and {rows[name]["state"] for rows in (shown.console, shown.listed) for name in KILLED}
                    == {"vanished"}
                    and shown.present == STAY | STEADY
                ),
            )

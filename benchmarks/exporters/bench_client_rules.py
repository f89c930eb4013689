"""What the recording rules for client series cost a real Prometheus, by the number of clients.

    python benchmarks/exporters/bench_client_rules.py --clients 20000 --applications 400 --brokers 6

A page of synthetic clients (three fifths Java, the others librdkafka; half producers, half consumers) with the series
that the rules read is scraped for a minute without the rules, and for another one with them. Printed as JSON: samples
on the page, series that the rules record by level, CPU time of the scrapes of a minute and of one evaluation of all
rules (the difference of both minutes) [s], resident memory of Prometheus.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

RULES = Path(__file__).parents[2] / "deploy/helm/fleetgauge/rules/fleetgauge-clients.rules.yml"
INFO = "client:fleetgauge_client_info:application"
WITHIN_S = 180
EVERY_S = 30
"""Between scrapes, and between evaluations [s]."""
SETTLED_S = 10
PARTITIONS = 4
"""Of a consumer."""
LIBRDKAFKA_SENDS = re.compile(
    r"connection_creation_total|request_latency_avg|throttle_time|queue_time|poll_idle|fetch_latency|commit_latency"
    r"|rebalance_latency_total|assigned_partitions"
)


def page(clients: int, applications: int, brokers: int) -> bytes:
    """The page, in Prometheus' text form."""
    read = sorted(set(re.findall(r"\borg_apache_kafka_\w+", RULES.read_text())))
    lines = []
    for number in range(clients):
        is_java, role = number % 5 < 3, ("producer", "consumer")[number % 2]
        software = ("apache-kafka-java", "4.4.0") if is_java else ("librdkafka", "2.16.0")
        application = f"app-{number % applications:05}"
        identity = (
            f'client_instance_id="{number:022}",client_id="{application}-{number}",principal="User:{application}"'
        )
        identity += f',cluster_id="c",application="{application}",library="{"java" if is_java else "librdkafka"}"'
        identity += f',group_id="group-{number % applications}"' if role == "consumer" else ""
        about = 'client_source_address="10.0.0.1"'
        about += f',client_software_name="{software[0]}",client_software_version="{software[1]}"'
        lines.append(f"fleetgauge_client_info{{{identity},{about}}} 1")
        for metric in read:
            if f"kafka_{role}_" not in metric or not (is_java or LIBRDKAFKA_SENDS.search(metric)):
                continue
            value = 0.4 if "ratio" in metric else number % 97
            lines += [f"{metric}{{{identity}{labels}}} {value}" for labels in labels_of(metric, brokers)]
    return "".join(f"{line}\n" for line in lines).encode()


def labels_of(metric: str, brokers: int) -> list[str]:
    """The labels of a metric's series beside those of their client."""
    if "_node_" in metric:
        return [f',node_id="{node}"' for node in range(1, brokers + 1)]
    if metric.endswith("_lag"):
        return [f',topic="orders",partition="{partition}"' for partition in range(PARTITIONS)]
    return [""]


class Page(ThreadingHTTPServer):
    """Serves one text for every request."""

    def __init__(self, text: bytes) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Server:
    """A Prometheus that scrapes one address."""

    def __init__(self, directory: Path, target: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as reserved:
            self.port = reserved.getsockname()[1]
        self._directory, self._target = directory, target
        self.process: subprocess.Popen[bytes]
        self.configure(rules=False)
        command = ["prometheus", f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/tsdb"]
        with (directory / "log").open("wb") as log:
            command += [f"--web.listen-address=127.0.0.1:{self.port}", "--query.timeout=1m"]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def configure(self, *, rules: bool) -> None:
        """Writes the configuration, and has a running server read it."""
        (self._directory / "prometheus.yml").write_text(
            f"global: {{scrape_interval: {EVERY_S}s, scrape_timeout: {EVERY_S}s, evaluation_interval: {EVERY_S}s}}\n"
            f"rule_files: [{RULES if rules else ''}]\n"
            f"scrape_configs: [{{job_name: clients, static_configs: [{{targets: ['{self._target}']}}]}}]\n"
        )
        if rules:
            self.process.send_signal(signal.SIGHUP)

    def ask(self, path: str) -> Any:
        """The data of an answer of the API."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}", timeout=60) as response:
            return json.load(response)["data"]

    def rules(self) -> list[dict[str, Any]]:
        """Every rule."""
        return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]

    def count(self, selector: str) -> int:
        """How many series there are; 0 while it does not answer."""
        with contextlib.suppress(OSError):
            found = self.ask(f"query?{urllib.parse.urlencode({'query': f'count({selector})'})}")["result"]
            return int(found[0]["value"][1]) if found else 0
        return 0


def cpu_s(pid: int) -> float:
    """User and system time of a process [s]."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for(condition: Callable[[], bool]) -> None:
    """Polls once a second."""
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline, "Prometheus is too slow for so many clients"
        time.sleep(1)


def spent(pid: int) -> float:
    """CPU time of a process within a minute, after its first evaluation or scrape [s]."""
    time.sleep(SETTLED_S)
    begin = cpu_s(pid)
    time.sleep(60)
    return cpu_s(pid) - begin


def measure(server: Server) -> dict[str, Any]:
    """CPU time with and without the rules, and what they record."""
    wait_for(lambda: server.count("fleetgauge_client_info") > 0)
    without = spent(server.process.pid)
    server.configure(rules=True)
    wait_for(lambda: "unknown" not in {rule["health"] for rule in server.rules()})
    with_rules = spent(server.process.pid)
    rules = server.rules()
    assert {rule["health"] for rule in rules} == {"ok"}, [rule["lastError"] for rule in rules if rule.get("lastError")]
    recorded: Counter[str] = Counter()
    for name in {rule["name"] for rule in rules}:
        recorded[name.partition(":")[0]] += server.count(f'{{__name__="{name}"}}')
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return {
        "recorded_series": dict(recorded),
        "scrapes_cpu_s_per_minute": round(without, 2),
        "rules_cpu_s_per_evaluation": round((with_rules - without) * EVERY_S / 60, 2),
        "prometheus_rss_mb": int(status.partition("VmRSS:")[2].split()[0]) // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=20_000)
    parser.add_argument("--applications", type=int, default=400)
    parser.add_argument("--brokers", type=int, default=6)
    options = parser.parse_args()
    text = page(options.clients, options.applications, options.brokers)
    served = Page(text)
    with tempfile.TemporaryDirectory() as made:
        server = Server(Path(made), f"127.0.0.1:{served.server_port}")
        try:
            found = measure(server)
        finally:
            server.process.kill()
            server.process.wait()
    print(json.dumps({**vars(options), "samples": text.count(b"\n"), "page_mb": len(text) // 10**6, **found}, indent=1))


if __name__ == "__main__":
    main()

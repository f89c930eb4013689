"""`make demo-gateway`: real clients through a gateway before a Kafka 2.8 broker, which has no KIP-714.

Kafka's own tool sets a quota at the gateway. At the end comes what an operator sees: status, traffic by client, the
ranked list. Exits with 1, naming what is missing, unless every client pushed, the limited one was throttled, and the
consumer whose application hardly polls is on the list.
"""

import json
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.brokers.broker_pipeline import create_topic, fleet
from support.brokers.zookeeper_kafka import VERSION, ZooKeeperKafka
from support.clients.working_clients import JAVA_3, JAVA_4, LIBRDKAFKA, WorkingClients
from support.gateway.gateway import GatewayBefore
from support.programs.node import run_cli
from support.waiting import ticking

from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.push_log.embedded.inspect import records_after

TOPIC = "orders.events"
LIMITED, LIMIT = "billing-producer", 30_000
SLOW = "invoices-consumer"
PUSHES_EACH = 5
AT_LEAST_S, AT_MOST_S = 30.0, 90.0
WINDOW = "5s"
RULES = """\
[slow-processing]
for_s = 5        # 600 in a fleet that runs for longer than a demo
young_s = 0      # as is this
polls_alike = true  # each call of poll() is as long

[throttled]
for_s = 5
"""


def main() -> int:
    """Runs the demo in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="fleetgauge-demo-gateway-") as made:
        problems = list(run(Path(made)))
    if problems:
        print("not everything came through:\n  " + "\n  ".join(problems), file=sys.stderr)
        return 1
    print(
        "Every client of a broker without KIP-714 pushed its metrics, and the gateway kept the limited one to its rate."
    )
    return 0


def run(directory: Path) -> Iterator[str]:
    """Runs the demo, prints its results, and yields what is missing."""
    landing = directory / "landing"
    with (
        ZooKeeperKafka(directory / "kafka") as broker,
        GatewayBefore(
            directory / "gateway",
            broker.port,
            "exporters.landing.type=landing",
            f"exporters.landing.path={landing}",
            "exporters.landing.linger.ms=1000",
            "gateway.traffic.interval.ms=5000",
            has_admin_listener=True,
        ) as gateway,
    ):
        print(f"Apache Kafka {VERSION} with ZooKeeper listens on 127.0.0.1:{broker.port}", flush=True)
        print(f"fleetgauge gateway stands before it on {gateway.bootstrap}", flush=True)
        admin = f"127.0.0.1:{gateway.port_of('ADMIN')}"
        limit = ["--alter", "--entity-type", "clients", "--entity-name", LIMITED]
        limit += ["--add-config", f"producer_byte_rate={LIMIT}"]
        print(f"kafka-configs.sh --bootstrap-server {admin} {' '.join(limit)}", flush=True)
        broker.tool("kafka.admin.ConfigCommand", "--bootstrap-server", admin, *limit)
        create_topic(gateway.bootstrap)
        pushes = run_clients(gateway, directory)
        status = gateway.status()
        print("\nfleetgauge status", flush=True)
        print(run_cli("status", "--log-dirs", str(gateway.data)).stdout, flush=True)
        assert gateway.stop() == 0, gateway.output()
    shown = ("--limit", "10", "--columns", "client id,api,requests/s,bytes/s in,broker avg ms,throttled,errors")
    print(f"fleetgauge fleet traffic --source {landing} {shlex.join(shown)}", flush=True)
    print(fleet("traffic", landing, *shown), flush=True)
    open_verdicts = verdicts(landing)
    for client_id, number in pushes.items():
        if number < PUSHES_EACH:
            yield f"{client_id} has {number} pushes in the log"
    if status["telemetry"]["push_answers"].keys() != {"NONE"}:
        yield f"pushes were answered {status['telemetry']['push_answers']}"
    if not throttled(status):
        yield f"{LIMITED} was not throttled"
    if ("slow-processing", SLOW) not in open_verdicts:
        yield f"{SLOW} hardly polls, and is not on the list: {open_verdicts}"


def run_clients(gateway: GatewayBefore, directory: Path) -> dict[str, int]:
    """Real clients of three libraries at work, until each has pushed often enough; returns their pushes."""
    java_3, java_4, librdkafka = (
        WorkingClients(library, gateway.bootstrap, directory / f"{library}.log")
        for library in (JAVA_3, JAVA_4, LIBRDKAFKA)
    )
    all_clients = (java_3, java_4, librdkafka)
    try:
        java_3.producer("orders-producer", TOPIC, per_s=10).consumer("orders-consumer", TOPIC)
        # An application that waits for the quota, and not hundreds of batches in a queue.
        room = {"batch.size": "16384", "linger.ms": "5", "buffer.memory": "98304"}
        java_4.producer(LIMITED, TOPIC, per_s=30, size=2_000, **room).consumer("billing-consumer", TOPIC)
        librdkafka.producer("audit-producer", TOPIC).consumer(SLOW, TOPIC, work_ms=500)
        client_ids = sorted(set().union(*(clients.client_ids for clients in all_clients)))
        print(f"clients: {', '.join(client_ids)}", flush=True)
        for ran_s in ticking(AT_MOST_S, every_s=1):
            pushes = pushes_in(gateway)
            done = all(pushes[client_id] >= PUSHES_EACH for client_id in client_ids) and throttled(gateway.status())
            if done and ran_s > AT_LEAST_S:
                break
        for clients in all_clients:
            clients.close()
        print(f"closed them after {ran_s:.0f} s", flush=True)
        return {client_id: pushes_in(gateway)[client_id] for client_id in client_ids}
    finally:
        for clients in all_clients:
            clients.kill()


def pushes_in(gateway: GatewayBefore) -> Counter[str]:
    """Pushes by client id in the gateway's log."""
    return Counter(record.client_id for _, record in records_after(DataDirectory(gateway.data).push_log))


def throttled(status: dict[str, Any]) -> int:
    """How often the limited producer was throttled."""
    by_client = status["gateway"]["traffic"]["by_client"].values()
    return sum(each["throttled"] for each in by_client if each["client_id"] == LIMITED and each["api"] == "Produce")


def verdicts(landing: Path) -> set[tuple[str, str]]:
    """Makes the tables, prints the ranked list, and returns verdict and subject of what is open."""
    tables, rules = landing.with_name("tables"), landing.with_name("rules.toml")
    rules.write_text(RULES)
    fleet("run", landing, "--tables", str(tables), "--window", WINDOW, "--rules", str(rules))
    asked = ("fleet", "verdicts", "--tables", str(tables))
    print(f"fleetgauge {' '.join(asked)}", flush=True)
    print(run_cli(*asked).stdout, flush=True)
    rows = json.loads(run_cli(*asked, "--format", "json").stdout)
    return {(row["verdict"], row["subject"]) for row in rows if row["state"] == "open"}


if __name__ == "__main__":
    sys.exit(main())

"""The demo itself: every step of the pipeline, and the check that the pushes of every client have arrived."""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from fleetgauge.base.clock import Time
from fleetgauge.base.module_command import module_command
from fleetgauge.demo.clients import CLIENT_IDS, SLOW_CONSUMER_ID, Clients
from fleetgauge.demo.processes import SHUTDOWN_TIMEOUT_MS, DemoError, OtlpReceiver, ServedNode
from fleetgauge.fleet.errors import JavaError
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.push_log.embedded.inspect import records_after

PUSHES_EACH = 5
_FLEET_TIMEOUT_S = 300.0

_CONFIG = """\
listeners = "PLAINTEXT://127.0.0.1:0"
log.dirs = "{data}"
shutdown.timeout.ms = {shutdown_ms}

[client-metrics.demo]
metrics = "*"
interval.ms = 1000

[exporters.collector]
type = "otlp"
endpoint = "http://127.0.0.1:{otlp_port}"

[exporters.landing]
type = "landing"
path = "{landing}"
linger.ms = 2000
"""

_WINDOW = "2s"
_RULES = """\
[slow-processing]
for_s = 2     # 600 in a fleet that runs for longer than a demo
young_s = 0   # as is this
polls_alike = true  # each call of poll() is as long
"""


def run_demo(directory: Path, console: Console, time: Time) -> None:
    """Runs the demo in `directory` and prints its results.

    Raises:
        DemoError: a part failed, or pushes of a client are missing; the text names them.
    """
    landing = directory / "landing"
    data = DataDirectory(directory / "data")
    receiver = OtlpReceiver()
    config = directory / "fleetgauge.toml"
    places = {"data": data.root, "landing": landing, "otlp_port": receiver.port}
    config.write_text(_CONFIG.format(**places, shutdown_ms=SHUTDOWN_TIMEOUT_MS), encoding="utf-8")
    try:
        node = ServedNode(config, data.root, directory / "serve.log", time)
        try:
            console.print(f"[bold]1.[/] fleetgauge serve listens on {node.bootstrap} (log: {directory}/serve.log)")
            console.print(f"[bold]2.[/] an OTLP gRPC server listens on 127.0.0.1:{receiver.port}")
            _run_clients(node, data, console, time)
            node.stop()
        finally:
            node.kill()
        received = receiver.finish()
    finally:
        receiver.kill()
    clients = received["clients"]
    points = sum(client["points"] for client in clients.values())
    console.print(f"[bold]5.[/] OTLP server: {received['exports']} exports, {points} points of {len(clients)} clients")
    console.print(f"[bold]6.[/] fleetgauge fleet reads the landing zone {landing}")
    without_spark = _why_without_spark()
    inventory = _analyse(landing, console)
    verdicts = _judge(landing, "process" if without_spark else "spark", console)
    problems = [*_missing_at_receiver(clients), *_missing_in_inventory(inventory), *_missing_in_verdicts(verdicts)]
    if without_spark:
        console.print(f"\nWithout PySpark, which would have made the tables and answered a question: {without_spark}")
    else:
        problems += _ask_spark(landing, inventory, console)
    if problems:
        raise DemoError("not everything came through: " + "; ".join(problems))
    cut_off = ", ".join(row["client_id"] for row in inventory if not row["terminated"])
    last = f"; librdkafka closed {cut_off} with a push in flight, without a terminating one" if cut_off else ""
    console.print(
        f"\n[green]Every one of the {len(CLIENT_IDS)} clients came through{last or ', to its terminating push'}.[/]"
    )
    console.print(f"[green]{SLOW_CONSUMER_ID}, whose application hardly polls, comes first.[/]")


@contextmanager
def demo_directory(kept: Path | None) -> Iterator[Path]:
    """The demo's directory: `kept`, or a temporary one."""
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        if any(kept.iterdir()):
            raise DemoError(f"{kept} is not empty: name a new directory")
        yield kept.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="fleetgauge-demo-") as directory:
        yield Path(directory)


def _run_clients(node: ServedNode, data: DataDirectory, console: Console, time: Time) -> None:
    def pushes(client_id: str) -> int:
        return sum(record.client_id == client_id for _, record in records_after(data.push_log))

    clients = Clients(node.bootstrap, pushes, time)
    console.print(f"[bold]3.[/] librdkafka clients: {', '.join(CLIENT_IDS)}")
    columns = (SpinnerColumn(), TextColumn("   pushes"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("pushes", total=PUSHES_EACH * len(CLIENT_IDS))
        clients.run_until_each_pushed(PUSHES_EACH, lambda done: progress.update(task, completed=done))
        clients.close_each_between_pushes()
    answers = node.status()["telemetry"]["push_answers"]
    console.print(f"[bold]4.[/] closed them; pushes answered: {answers}")


def _analyse(landing: Path, console: Console) -> list[dict[str, Any]]:
    """Prints inventory and latency, and returns the inventory's rows."""
    answers = landing.with_name("answers")
    console.print(f"\n[bold]fleetgauge fleet show inventory latency --source {landing}[/]", soft_wrap=True)
    _fleet("show", "inventory", "latency", "--source", str(landing), "--format", "json", "--output", str(answers))
    files = sorted((answers / "inventory").glob("*.json"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def _why_without_spark() -> str | None:
    """Why PySpark is not used; None if it is."""
    try:
        from fleetgauge.fleet.spark.session import check_java

        check_java()
    except (ModuleNotFoundError, JavaError) as error:
        return str(error)
    return None


def _ask_spark(landing: Path, inventory: list[dict[str, Any]], console: Console) -> list[str]:
    """Asks Spark for the points of each client, and shows them beside those of the inventory, which this process made;
    where they differ.
    """
    from fleetgauge.demo.question import ASKED, points_by_client

    console.print(f"\n[bold]{ASKED}[/]", soft_wrap=True, markup=True)
    by_spark = points_by_client(landing)
    shown = Table("client_id", "points, by Spark", "by fleetgauge fleet show inventory")
    for row in inventory:
        shown.add_row(row["client_id"], str(by_spark.get(row["client_id"])), str(row["points"]))
    console.print(shown)
    expected = {row["client_id"]: row["points"] for row in inventory}
    return [] if by_spark == expected else [f"Spark counts {by_spark}, and the process {expected}"]


def _judge(landing: Path, engine: str, console: Console) -> list[dict[str, Any]]:
    """Makes the tables, prints the ranked list, and returns its rows."""
    tables, rules = str(landing.with_name("tables")), landing.with_name("rules.toml")
    rules.write_text(_RULES, encoding="utf-8")
    options = ["--source", str(landing), "--engine", engine, "--tables", tables]
    options += ["--window", _WINDOW, "--rules", str(rules)]
    console.print(f"\n[bold]fleetgauge fleet run {' '.join(options)}[/]", soft_wrap=True)
    _fleet("run", *options)
    console.print(f"\n[bold]fleetgauge fleet verdicts --tables {tables}[/]", soft_wrap=True)
    _fleet("verdicts", "--tables", tables)
    answers = landing.with_name("verdicts")
    _fleet("verdicts", "--tables", tables, "--format", "json", "--output", str(answers))
    return [json.loads(line) for line in (answers / "part-0.json").read_text(encoding="utf-8").splitlines()]


def _fleet(*arguments: str) -> None:
    command = [*module_command("fleetgauge"), "fleet", *arguments]
    done = subprocess.run(command, check=False, timeout=_FLEET_TIMEOUT_S)
    if done.returncode != 0:
        raise DemoError(f"fleetgauge fleet {arguments[0]} failed with exit code {done.returncode}")


def _missing_in_verdicts(verdicts: list[dict[str, Any]]) -> Iterator[str]:
    first = verdicts[0] if verdicts else {}
    first_verdict = first.get("verdict"), first.get("subject"), first.get("state")
    if first_verdict != ("slow-processing", SLOW_CONSUMER_ID, "open"):
        yield f"{SLOW_CONSUMER_ID} hardly polls, and is not the first verdict: that is {first_verdict}"


def _missing_at_receiver(clients: dict[str, Any]) -> Iterator[str]:
    by_client_id = {client["labels"].get("client_id"): client["labels"] for client in clients.values()}
    for client_id in CLIENT_IDS:
        labels = by_client_id.get(client_id)
        if labels is None:
            yield f"{client_id} is not at the OTLP server"
            continue
        expected = {
            "client_source_address": "127.0.0.1",
            "principal": "User:ANONYMOUS",
            "node_id": "1",
            "client_software_name": "confluent-kafka-python",
        }
        for label, value in expected.items():
            if labels.get(label) != value:
                yield f"{client_id} has the label {label}={labels.get(label)!r} at the OTLP server, not {value!r}"
        for label in ("client_instance_id", "client_software_version", "client_source_port"):
            if not labels.get(label):
                yield f"{client_id} has no label {label} at the OTLP server"


def _missing_in_inventory(inventory: list[dict[str, Any]]) -> Iterator[str]:
    rows = {row["client_id"]: row for row in inventory}
    for client_id in CLIENT_IDS:
        row = rows.get(client_id)
        if row is None:
            yield f"{client_id} is not in the inventory"
        elif row["pushes"] < PUSHES_EACH:
            yield f"{client_id} has {row['pushes']} pushes in the inventory, and made {PUSHES_EACH} at least"

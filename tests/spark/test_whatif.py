"""`fleet whatif` on executors gives the rows that it gives in this process."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from support.fleet.whatif_tables import NOON, Sender, write_tables

from fleetgauge.fleet.tables.store import Store
from fleetgauge.fleet.whatif import engines
from fleetgauge.fleet.whatif.quotas import parse_quotas
from fleetgauge.fleet.whatif.whatif import Run, answer, clients_of, fleet_of, parts_of, reader, stretch

SENDERS = [
    Sender(
        name=f"{letter}{number}",
        client_id=f"client-{number % 4}",
        user=("alice", "bob")[number % 2],
        role=("producer", "consumer")[number % 3 == 0],
        rates=tuple(1_000.0 * (1 + (number + window) % 5) for window in range(6)),
        nodes=((1, 2), (None,))[number % 5 == 0],
    )
    for number, letter in enumerate("ABCKLMabckz0159-_")
]
QUOTAS = ("user=<default>,producer_byte_rate=9000", "client-id=<default>,consumer_byte_rate=5000")


def test_executors_give_the_rows_of_this_process(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(str(write_tables(tmp_path, SENDERS)))
    asked, of = parse_quotas(QUOTAS), stretch(store, NOON, None)
    fleet = fleet_of(clients_of(store, of), asked)
    read = reader(store, fleet, of, to_one=False)
    parts = parts_of(of, least=5)
    runs: list[Run] = [
        lambda task: engines.in_process(read, parts_of(of), task, lambda _: None),
        lambda task: engines.in_process(read, parts, task, lambda _: None),
        lambda task: engines.on_spark(spark, read, parts, task),
    ]
    found: list[list[dict[str, Any]]] = [answer(fleet, asked, run, of.window_s, 10.0).rows.to_pylist() for run in runs]
    assert found[0] == found[1] == found[2]
    assert {row["throttled"] for row in found[0]} == {True, False}
    assert len({(row["user"], row["client_id"]) for row in found[0]}) > 3

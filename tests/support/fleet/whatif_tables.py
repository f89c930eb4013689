"""Fleet tables of clients with given byte rates: the wide rows and clients that `fleet whatif` reads."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from fleetgauge.fleet.measures.rows import GROWTH_UNITS, ROWS
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CLUSTER = "lkc-1"


@dataclass(frozen=True, kw_only=True)
class Sender:
    """A client instance with one push per window; bytes by broker [bytes/s] in each, or by None as a sum."""

    name: str
    rates: tuple[float, ...]
    user: str = "alice"
    client_id: str = "app"
    role: str = "producer"
    dialect: str = "java"
    nodes: tuple[int | None, ...] = (1,)
    request_bytes: float = 1_000.0
    window_s: int = 60


def rows_of(sender: Sender) -> list[dict[str, Any]]:
    """Its rows of WINDOWS, one per window and broker beside the client's own."""
    found = []
    column = "bytes_sent" if sender.role == "producer" else "bytes_received"
    for number, rate in enumerate(sender.rates):
        start = NOON + timedelta(seconds=number * sender.window_s)
        own = {
            "date": start.date(),
            "window_start": start,
            "window_s": sender.window_s,
            "cluster_id": CLUSTER,
            "principal": f"User:{sender.user}",
            "client_instance_id": sender.name,
        }
        client = {
            **own,
            "seen_at": start + timedelta(seconds=sender.window_s),
            "push_interval_ms": sender.window_s * 1_000,
            "client_id": sender.client_id,
            "dialect": sender.dialect,
            "pushes": 1,
        }
        if sender.dialect == "java":
            sums = [client if node is None else {**own, "role": sender.role, "node_id": node} for node in sender.nodes]
            for each in sums:
                bytes_ = rate * sender.window_s / len(sums)
                each |= {f"{column}_sum": round(bytes_ * GROWTH_UNITS), f"{column}_count": 1}
                each |= {"requests_sum": round(bytes_ / sender.request_bytes * GROWTH_UNITS), "requests_count": 1}
            found += [each for each in sums if each is not client]
        found.append(client)
    return found


def client_of(sender: Sender) -> dict[str, Any]:
    """Its row of CLIENTS."""
    return {
        "cluster_id": CLUSTER,
        "principal": f"User:{sender.user}",
        "client_instance_id": sender.name,
        "client_id": sender.client_id,
        "dialect": sender.dialect,
        "role": sender.role,
        "first_seen": NOON,
        "last_seen": NOON + timedelta(seconds=len(sender.rates) * sender.window_s),
    }


def windows(senders: Iterable[Sender]) -> pa.Table:
    """Rows of WINDOWS."""
    return pa.Table.from_pylist([row for sender in senders for row in rows_of(sender)], schema=ROWS)


def write_tables(root: Path, senders: Iterable[Sender]) -> Path:
    """The tables `windows` and `clients` under a root."""
    senders = list(senders)
    store = Store(str(root))
    store.append_rows(catalog.CLIENTS, map(client_of, senders))
    with store.files_of(catalog.WINDOWS).open() as writer:
        for batch in windows(senders).to_batches():
            writer.write(batch)
        writer.finish()
        store.change(catalog.WINDOWS, add=writer.take_finished())
    return root

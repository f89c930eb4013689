"""Fleet tables made by hand: an empty fleet, and one whose clients chose hostile names."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store

BEGIN = datetime(2026, 3, 2, 6, tzinfo=UTC)
HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'onmouseover=alert(1) x='",
    "{{ 7 * 7 }}{% raw %}",
    "\x1b[2Jred\x1f\x00\n\r\tline",
    "\u202egnp.exe\u200f\u2066",
    "javascript:alert(1)",
    "</title></style><style>*{display:none}",
    "",
    "long-" + "x" * 10_000,
)
"""What a client may call itself."""


def empty_tables(root: Path) -> Path:
    """The tables of a fleet of which nothing was received."""
    store = Store(str(root))
    for table in catalog.TABLES.values():
        store.make(table)
    return root


def hostile_tables(root: Path) -> Path:
    """One client, group, version and open verdict of each hostile name."""
    store = Store(str(empty_tables(root)))
    names = [(number, name) for number, name in enumerate(HOSTILE)]
    store.append_rows(catalog.CLIENTS, [_client(number, name) for number, name in names])
    store.append_rows(catalog.VERDICTS, [_verdict(number, name) for number, name in names])
    store.append_rows(
        catalog.VERSIONS,
        [
            {
                "cluster_id": name, "client_software_name": name, "client_software_version": name, "dialect": name,
                "instances": 1, "clients": 1, "live": 1, "silent": 0, "gone": 0, "ended": 0, "first_seen": BEGIN,
                "last_seen": BEGIN,
            }
            for _, name in names
        ],
    )  # fmt: skip
    own = [{"date": BEGIN.date(), "window_start": BEGIN, "window_s": 300, "cluster_id": name} for _, name in names]
    store.append_rows(
        catalog.GROUPS, [row | {"group_id": row["cluster_id"], "members": 1, "lag_records": 7.0} for row in own]
    )
    store.append_rows(
        catalog.THROTTLING,
        [
            row
            | {
                "principal": row["cluster_id"], "client_instance_id": "A" * 22, "client_id": row["cluster_id"],
                "request": "produce", "throttle_avg_ms": 5.0, "throttle_max_ms": 9.0, "samples": 1, "throttled": 1,
            }
            for row in own
        ],
    )  # fmt: skip
    store.append_rows(catalog.WINDOWS, [_link(number, name) for number, name in names])
    return root


def _instance(number: int) -> str:
    return f"{number:022d}"


def _client(number: int, name: str) -> dict[str, Any]:
    return {
        "cluster_id": name, "principal": name, "client_instance_id": _instance(number), "client_id": name,
        "client_software_name": name, "client_software_version": name, "dialect": "java", "role": "producer",
        "group_id": name, "client_source_address": name, "push_interval_ms": 60_000, "first_seen": BEGIN,
        "last_seen": BEGIN + timedelta(minutes=4), "terminated": False, "state": "live",
    }  # fmt: skip


def _verdict(number: int, name: str) -> dict[str, Any]:
    return {
        "verdict": name if number % 3 == 0 else "slow-client", "subject_kind": "client", "subject": name,
        "cluster_id": name, "principal": name, "client_id": name, "group_id": name, "instances": [_instance(number)],
        "instance_count": 1, "severity": "critical", "score": 90.0 - number, "confidence": 0.9, "state": "open",
        "opened_at": BEGIN, "last_seen_at": BEGIN + timedelta(minutes=5), "why": f"{name} waits; since today",
        "action": f"Look at {name}.", "side": "client", "caused_by": f"none:client:{name}",
        "evidence": [{
            "metric": name, "window_start": BEGIN, "window_s": 300, "observed": 5.0, "expected": 1.0, "unit": name,
            "samples": 1,
        }],
        "judged_by": [name],
    }  # fmt: skip


def _link(number: int, name: str) -> dict[str, Any]:
    return {
        "date": BEGIN.date(), "window_start": BEGIN, "window_s": 300, "cluster_id": name, "principal": name,
        "client_instance_id": _instance(number), "role": "producer", "node_id": 1, "coordinator": False,
        "client_id": name, "request_latency_avg_ms_sum": 3_000_000, "request_latency_avg_ms_count": 1,
    }  # fmt: skip

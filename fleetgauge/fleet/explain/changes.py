"""Changes in a fleet since a time: clients and versions that appeared and left, verdicts opened and cleared."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from fleetgauge.fleet.arrow import Table, pa, pc
from fleetgauge.fleet.fleet import Fleet
from fleetgauge.fleet.pipeline.memories import latest_memory
from fleetgauge.fleet.schemas import TIME
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store
from fleetgauge.fleet.views.verdict_list import duration_text
from fleetgauge.verdicts.arrow import typed

SCHEMA: Final = pa.schema(
    [
        ("at", TIME),
        *typed(pa.string(), "change", "subject_kind", "subject", "cluster_id", "verdict", "severity", "what"),
    ]
)
"""One row per change, the latest first. `change` is `came`, `left`, `opened` or `cleared`; a client or version is there
while any of its instances is live."""

Row = dict[str, Any]


def changes(fleet: Fleet, since: datetime) -> Table:
    """SCHEMA: changes since a time, as of the last run of `fleet run`."""
    store = fleet.store
    rows = [*_of_clients(store, since), *_of_versions(store, since), *_of_verdicts(fleet, since)]
    rows.sort(key=lambda row: (row["change"], row["subject_kind"], row["subject"], row["cluster_id"]))
    rows.sort(key=lambda row: row["at"], reverse=True)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _of_clients(store: Store, since: datetime) -> Iterator[Row]:
    """Changes of client ids; one instance that replaces another is not a change."""
    rows = store.snapshot(catalog.CLIENTS).table(("cluster_id", "client_id", "first_seen", "last_seen", "state"))
    rows = rows.append_column("live", pc.equal(rows["state"], "live").cast(pa.int64()))
    rows = rows.append_column("ended", pc.equal(rows["state"], "ended").cast(pa.int64()))
    grouped = rows.group_by(["cluster_id", "client_id"]).aggregate(
        [("first_seen", "min"), ("last_seen", "max"), ("live", "sum"), ("ended", "sum"), ("live", "count")]
    )
    for row in grouped.to_pylist():
        about = {"subject_kind": "client", "subject": row["client_id"] or "", "cluster_id": row["cluster_id"]}
        count = f"{row['live_count']:,} instance{'s' if row['live_count'] > 1 else ''}"
        if row["first_seen_min"] >= since:
            what = f"first push of a new client, {count}"
            yield {"at": row["first_seen_min"], "change": "came", "what": what, **about}
        if row["last_seen_max"] >= since and not row["live_sum"]:
            how = (
                "ended" if row["ended_sum"] == row["live_count"] else "last push; not all instances reported their end"
            )
            yield {"at": row["last_seen_max"], "change": "left", "what": f"{how}, {count}", **about}


def _of_versions(store: Store, since: datetime) -> Iterator[Row]:
    for row in store.snapshot(catalog.VERSIONS).table().to_pylist():
        name = f"{row['client_software_name'] or 'unknown'}/{row['client_software_version'] or 'unknown'}"
        about = {"subject_kind": "version", "subject": name, "cluster_id": row["cluster_id"]}
        if row["first_seen"] >= since:
            what = f"first push of this version; {row['live']:,} live instances of {row['clients']:,} clients"
            yield {"at": row["first_seen"], "change": "came", "what": what, **about}
        if row["last_seen"] >= since and not row["live"]:
            yield {
                "at": row["last_seen"],
                "change": "left",
                "what": "last push of this version; no instance is live",
                **about,
            }


def _of_verdicts(fleet: Fleet, since: datetime) -> Iterator[Row]:
    """Changes of verdicts. A verdict opens some windows after its first bad one; the table has the first."""
    cases = latest_memory(fleet.store)[0].all_cases()
    opened = {
        (case.verdict, case.subject_kind, case.subject, case.cluster_id, case.first_bad_us): case.opened_us
        for case in cases
    }
    for row in fleet.verdicts().to_pylist():
        about = {name: row[name] for name in ("subject_kind", "subject", "cluster_id", "verdict", "severity")}
        begin_us = round(row["opened_at"].timestamp() * 1_000_000)
        key = row["verdict"], row["subject_kind"], row["subject"], row["cluster_id"], begin_us
        opened_us = opened.get(key) or begin_us
        opened_at = datetime.fromtimestamp(opened_us / 1_000_000, UTC)
        if opened_at >= since:
            yield {"at": opened_at, "change": "opened", "what": row["why"].partition("; since ")[0], **about}
        if row["cleared_at"] is not None and row["cleared_at"] >= since:
            lasted = duration_text(row["cleared_at"] - row["opened_at"])
            yield {"at": row["cleared_at"], "change": "cleared", "what": f"after {lasted}", **about}

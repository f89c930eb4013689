"""Gold tables without Spark: with deltalake (and DuckDB, where it is installed), as a notebook would.

    pip install deltalake duckdb
    python examples/read_gold_without_spark.py ./fleetgauge-data/fleet

Both read Delta Lake tables from a directory, or from S3, Azure and Google's storage by their URIs.
"""

import sys
from datetime import date

import pyarrow.compute as pc
from deltalake import DeltaTable


def slowest_links(root: str, limit: int = 10) -> list[dict[str, object]]:
    """The links with the highest average latency of the last day: client, node, window and latency [ms]."""
    columns = ["window_start", "client_id", "client_instance_id", "role", "node_id", "latency_avg_ms", "latency_max_ms"]
    table = DeltaTable(f"{root}/gold/latency")
    days = sorted({str(partition["date"]) for partition in table.partitions()})
    if not days:
        return []
    # Only the files of that day are read.
    last_day = table.to_pyarrow_table(filters=[("date", "=", date.fromisoformat(days[-1]))], columns=columns)
    known = last_day.filter(pc.is_valid(last_day["latency_avg_ms"]))
    rows: list[dict[str, object]] = known.sort_by([("latency_avg_ms", "descending")]).slice(0, limit).to_pylist()
    return rows


def clients_by_state(root: str) -> dict[str, int]:
    """Number of client instances by state: live, silent, gone, ended."""
    counted = DeltaTable(f"{root}/gold/inventory").to_pyarrow_table(columns=["state"]).group_by("state")
    return {row["state"]: row["state_count"] for row in counted.aggregate([("state", "count")]).to_pylist()}


def lag_by_group(root: str) -> list[tuple[object, ...]]:
    """The largest lag of each consumer group with a known lag, with DuckDB and SQL.

    A null says that a client's library sends no lag (`unknown` names what it does not), never that there is none.
    """
    import duckdb

    consumers = DeltaTable(f"{root}/gold/consumers").to_pyarrow_dataset()
    connection = duckdb.connect()
    connection.register("consumers", consumers)
    return connection.sql(
        "SELECT group_id, max(lag_max_records) AS lag FROM consumers WHERE lag_max_records IS NOT NULL "
        "GROUP BY group_id ORDER BY lag DESC"
    ).fetchall()


if __name__ == "__main__":
    tables = sys.argv[1] if len(sys.argv) > 1 else "./fleetgauge-data/fleet"
    print("clients:", clients_by_state(tables))
    for row in slowest_links(tables):
        print(row)

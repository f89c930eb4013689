"""Gold: versions, which client software the fleet runs."""

from collections.abc import Iterable
from typing import Final

from fleetgauge.fleet.arrow import RecordBatch, Table, conformed, pa, pc
from fleetgauge.fleet.measures.rows import one
from fleetgauge.fleet.schemas import CLIENTS, VERSIONS

_VERSION: Final = ("cluster_id", "client_software_name", "client_software_version", "dialect")
_STATES: Final = ("live", "silent", "gone", "ended")
_SUMS: Final = ("instances", *_STATES)

COLUMNS: Final = (*_VERSION, "client_id", "state", "first_seen", "last_seen")
"""Of CLIENTS, those that `versions` reads."""


def versions(clients: Iterable[RecordBatch]) -> Table:
    """CLIENTS -> VERSIONS: one row a cluster and version of its clients' software, with instances by state.

    Holds a row of each version and client id, which are counted exactly.

    >>> columns = "client_instance_id client_id client_software_name client_software_version state"
    >>> clients = rows(CLIENTS, columns, ("one", "billing", "apache-kafka-java", "4.4.0", "live"),
    ...     ("two", "billing", "apache-kafka-java", "4.4.0", "gone"), ("three", "audit", "kgo", "v1.22.2", "silent"))
    >>> found = versions(clients.to_batches(max_chunksize=1))
    >>> show(found, "client_software_name client_software_version instances clients live silent gone")
    client_software_name  client_software_version  instances  clients  live  silent  gone
    apache-kafka-java     4.4.0                    2          1        1     0       1
    kgo                   v1.22.2                  1          1        0     1       0
    """
    by_id = [_counted(pa.RecordBatch.from_pylist([], schema=CLIENTS))]
    for batch in clients:
        by_id = [_added_up(pa.concat_tables([*by_id, _counted(batch)]), (*_VERSION, "client_id"), _SUMS)]
    ids = pa.concat_tables(by_id)
    ids = ids.append_column("clients", pc.is_valid(ids["client_id"]).cast(pa.int64()))
    found = _added_up(ids, _VERSION, (*_SUMS, "clients"))
    return conformed(VERSIONS, {name: one(found[name]) for name in found.column_names}, found.num_rows)


def _counted(clients: RecordBatch) -> Table:
    columns = {name: clients.column(name) for name in COLUMNS if name != "state"}
    for state in _STATES:
        columns[state] = pc.equal(clients.column("state"), state).fill_null(False).cast(pa.int64())
    return pa.table(columns | {"instances": pa.repeat(pa.scalar(1, pa.int64()), len(clients))})


def _added_up(rows: Table, by: Iterable[str], sums: Iterable[str]) -> Table:
    rules = {**dict.fromkeys(sums, "sum"), "first_seen": "min", "last_seen": "max"}
    found = rows.group_by([*by], use_threads=False).aggregate([*rules.items()])
    found = found.rename_columns({f"{name}_{rule}": name for name, rule in rules.items()})
    return found.select([name for name in rows.column_names if name in found.column_names])

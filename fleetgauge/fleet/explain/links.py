"""Client instances that have links to a node, by the wide rows; in a large fleet those of some instances.

The ids of instances are random, and the rows of a file lie in their order. So instances whose ids follow one another
are a fair sample, and are read with few row groups.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from fleetgauge.fleet import shards
from fleetgauge.fleet.arrow import Table, pa, pc, to_list
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.log import Snapshot
from fleetgauge.fleet.tables.store import Store
from fleetgauge.verdicts.registry import Registry

MOST_INSTANCES: Final = 40
"""Most instances whose figures are read, of a subject and of its peers."""

_ROWS_AT_FIRST: Final = 500_000
"""Wide rows that are searched at first, about: a tenth of a second."""
_INSTANCES_AT_FIRST: Final = 2 * MOST_INSTANCES
"""Instances of each cluster that are looked at, at least about."""
_MORE: Final = 4
"""Factor by which more are looked at where these were not enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Where subjects are looked for.

    Attributes:
        store: the tables.
        windows: WINDOWS, opened once for all that is read of it.
        registry: names that the judge knows.
        begin: links count from then on.
    """

    store: Store
    windows: Snapshot
    registry: Registry
    begin: datetime


@dataclass(frozen=True, slots=True)
class LookedAt:
    """Number of instances of a cluster that were looked at for links, and of all that pushed in the time."""

    instances: int
    of: int

    def __str__(self) -> str:
        return f"found among {self.instances:,} of {self.of:,}"


class Linked(NamedTuple):
    """The instances of a cluster that have links to a node; `looked_at` is None if all were looked at."""

    cluster_id: str
    clients: Table
    looked_at: LookedAt | None = None


def linked_of_client(known: Known, clients: Table, node_id: int) -> Iterator[Linked]:
    """Those of some instances, such as a client id's, that have links to a node, cluster by cluster."""
    return _linked(known, clients, node_id, pc.field("client_instance_id").isin(clients["client_instance_id"].unique()))


def linked(known: Known, clients: Table, node_id: int) -> Iterator[Linked]:
    """Instances with links to a node, of each cluster that has it.

    Where the wide rows are many, a part of the instances is looked at. It grows until it has `MOST_INSTANCES` with
    links in each cluster that is known to have the node.
    """
    clients = clients.filter(pc.greater_equal(clients["last_seen"], known.begin))
    counts = _counts(clients)
    clusters = _clusters_with(known.registry, list(counts), node_id)
    files = [file for file in known.store.files(catalog.WINDOWS) if file["num_records"]]
    rows = sum(file["num_records"] for file in files if file["max.window_start"] >= known.begin)
    smallest = min((counts[each] for each in clusters or counts), default=0)
    parts = min(rows // _ROWS_AT_FIRST, smallest // _INSTANCES_AT_FIRST)
    while parts > 1:
        first = shards.within(shards.parts(parts)[0])
        some = clients.filter(first)
        looked_at = _counts(some)
        linked_there = list(_linked(known, some, node_id, first))
        enough = {each.cluster_id for each in linked_there if each.clients.num_rows >= MOST_INSTANCES}
        enough |= {name for name, count in looked_at.items() if count == counts[name]}
        if linked_there and enough.issuperset([*clusters, *(each.cluster_id for each in linked_there)]):
            for each in linked_there:
                number = LookedAt(looked_at[each.cluster_id], counts[each.cluster_id])
                yield each._replace(looked_at=number)
            return
        parts //= _MORE
    yield from _linked(known, clients, node_id, pc.scalar(True))


def by_cluster(rows: Table) -> Iterator[tuple[str, Table]]:
    """The rows of each cluster."""
    for cluster_id in to_list(rows["cluster_id"].unique()):
        yield cluster_id, rows.filter(pc.equal(rows["cluster_id"], cluster_id))


def _linked(known: Known, clients: Table, node_id: int, where: Any) -> Iterator[Linked]:
    """Clients with rows that are links to the node and meet a condition, of each cluster."""
    where &= (pc.field("node_id") == node_id) & (pc.field("window_start") >= known.begin)
    rows = known.windows.table(("cluster_id", "client_instance_id"), where)
    links = rows.group_by(rows.column_names, use_threads=False).aggregate([])
    for cluster_id, of_cluster in by_cluster(links):
        ids = of_cluster["client_instance_id"].combine_chunks()
        is_own = pc.and_(pc.equal(clients["cluster_id"], cluster_id), pc.is_in(clients["client_instance_id"], ids))
        if pc.any(is_own).as_py():
            yield Linked(cluster_id, clients.filter(is_own))


def _counts(clients: Table) -> dict[str, int]:
    """Number of instances of each cluster."""
    counted = pc.value_counts(clients["cluster_id"])
    return {each["values"]: each["counts"] for each in counted.to_pylist()}


def _clusters_with(registry: Registry, clusters: list[str], node_id: int) -> list[str]:
    """The clusters in which the judge knows a node by latencies."""
    names = (pa.chunked_array([each], pa.string()) for each in (clusters, [str(node_id)] * len(clusters)))
    return [name for name, code in zip(clusters, registry.nodes.find(*names).tolist(), strict=True) if code >= 0]

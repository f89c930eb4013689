"""Subjects that an operator may name: clients, instances, groups, nodes, paths and versions in the tables."""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from fleetgauge.fleet.arrow import Table, pc, to_list
from fleetgauge.fleet.errors import FleetError
from fleetgauge.fleet.explain.links import Known, LookedAt, by_cluster, linked, linked_of_client
from fleetgauge.fleet.source.selection import SelectionError, parse_instance_ids
from fleetgauge.fleet.tables import catalog

KINDS: Final = ("client", "instance", "group", "node", "path", "version")
_MOST_NAMES: Final = 5
_PATH: Final = "@"

CLIENT_COLUMNS: Final = (
    "cluster_id", "principal", "client_instance_id", "client_id", "client_software_name", "client_software_version",
    "dialect", "role", "group_id", "client_source_address", "push_interval_ms", "first_seen", "last_seen", "state",
)  # fmt: skip
"""The columns of CLIENTS that an explanation needs."""


class UnknownSubjectError(FleetError):
    """The tables hold nothing under this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One subject.

    Attributes:
        kind: of KINDS.
        name: as `subject` of VERDICTS has it.
        cluster_id: its cluster.
        clients: `CLIENT_COLUMNS` of its instances; of a node, of those that have links to it.
        node_id: of a node or path.
        looked_at: the instances that `clients` of a node are among, in a large fleet; None is all.
    """

    kind: str
    name: str
    cluster_id: str
    clients: Table
    node_id: int | None = None
    looked_at: LookedAt | None = None


def find(known: Known, text: str, kind: str | None = None, cluster_id: str | None = None) -> list[Subject]:
    """The subjects of that name, at least one, in the order of their kinds and clusters.

    Args:
        known: the tables.
        text: a name; a kind before it (`node 3`) counts as `kind`.
        kind: only of this one.
        cluster_id: only in this one.

    Raises:
        UnknownSubjectError: there is none; the text has the nearest names.
    """
    first, _, rest = text.strip().partition(" ")
    if kind is None and rest and first in KINDS:
        kind, text = first, rest
    name = text.strip()
    clients = known.store.snapshot(catalog.CLIENTS).table(CLIENT_COLUMNS)
    if cluster_id is not None:
        clients = clients.filter(pc.equal(clients["cluster_id"], cluster_id))
    subjects = [
        subject
        for each in (KINDS if kind is None else (kind,))
        for subject in sorted(_of_kind(known, clients, each, name), key=lambda subject: subject.cluster_id)
    ]
    if not subjects:
        raise UnknownSubjectError(_unknown(clients, name, kind))
    return subjects


def _of_kind(known: Known, clients: Table, kind: str, name: str) -> Iterator[Subject]:
    if kind in ("node", "path"):
        yield from _of_nodes(known, clients, kind, name)
        return
    if kind == "instance":
        try:
            (name,) = parse_instance_ids([name])
        except SelectionError:
            return
    own_of = dict(by_cluster(clients.filter(pc.equal(_names(clients, kind), name))))
    for cluster_id in {*own_of, *_clusters_without_telemetry(known, kind, name)}:
        own = own_of.get(cluster_id, clients.schema.empty_table())
        yield Subject(kind=kind, name=name, cluster_id=cluster_id, clients=own)


def _clusters_without_telemetry(known: Known, kind: str, name: str) -> Iterator[str]:
    """The clusters that a group was sampled in, or a client or group counted by a gateway."""
    tables = {
        "client": ("client_id", [catalog.TRAFFIC]),
        "group": ("group_id", [catalog.TRAFFIC, catalog.GROUP_TRENDS]),
    }
    column, of_kind = tables.get(kind, ("", []))
    where = (pc.field(column) == name) & (pc.field("window_start") >= known.begin)
    for table in of_kind:
        if known.store.has(table):
            yield from to_list(known.store.snapshot(table).table(("cluster_id",), where)["cluster_id"].unique())


def _of_nodes(known: Known, clients: Table, kind: str, name: str) -> Iterator[Subject]:
    """Nodes that clients have links to; a path is the link of one client id to a node."""
    client_id, _, node = name.rpartition(_PATH)
    if not re.fullmatch(r"[0-9]{1,9}", node) or (kind == "path") != bool(client_id):
        return
    if client_id:
        links = linked_of_client(known, clients.filter(pc.equal(clients["client_id"], client_id)), int(node))
    else:
        links = linked(known, clients, int(node))
    for cluster_id, own, looked_at in links:
        yield Subject(kind=kind, name=name, cluster_id=cluster_id, clients=own, node_id=int(node), looked_at=looked_at)


def _names(clients: Table, kind: str) -> Any:
    if kind == "version":
        return pc.binary_join_element_wise(clients["client_software_name"], clients["client_software_version"], "/")
    return clients[{"client": "client_id", "instance": "client_instance_id", "group": "group_id"}[kind]]


def _unknown(clients: Table, name: str, kind: str | None) -> str:
    what = kind or "client, instance, group, node, path or version"
    named = [each for each in ("client", "group", "version", "instance") if kind in (None, each)]
    known = {each for one in named for each in _names(clients, one).drop_null().unique().to_pylist()}
    nearest = difflib.get_close_matches(name[:100], sorted(known), n=_MOST_NAMES, cutoff=0.5)
    hint = f"the nearest names are {', '.join(nearest)}" if nearest else "fleet show clients lists all clients"
    return f"the tables have no {what} {name!r}: {hint}"

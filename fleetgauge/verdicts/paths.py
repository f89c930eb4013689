"""Paths of a window: from a client id, with its role and library, to a broker."""

from dataclasses import dataclass

import numpy as np

from fleetgauge.verdicts.arrow import Numbers
from fleetgauge.verdicts.registry import KINDS, PATHS
from fleetgauge.verdicts.window import Groups, Window, numbered, once


@dataclass(frozen=True, slots=True)
class Paths:
    """The paths of links, in terms of clients and brokers, whatever their latencies.

    Attributes:
        by_path: the links by their paths.
        client, kind, node: of each path; see `verdicts.registry.KINDS`.
        key: of each path, for histories.
        by_series: the paths by their series: a client id, role and library.
        by_node: the paths by their nodes, which are places in `nodes`.
        nodes: numbers in the registry.
        cluster: of each node, a small number.
    """

    by_path: Groups
    client: Numbers
    kind: Numbers
    node: Numbers
    key: Numbers
    by_series: Groups
    by_node: Groups
    nodes: Numbers
    cluster: Numbers


@once
def paths_of(window: Window) -> Paths:
    """The paths of a window's links."""
    links = window.links
    series_key, of_series = numbered((window.client * KINDS + window.dialect + 1)[links.row] + links.role * 4)
    width = int(links.place.max(initial=0)) + 1
    path, path_of = numbered(of_series * width + links.place)
    link = np.zeros(len(path), np.int64)  # any of a path, since they have the same node
    link[path_of] = np.arange(len(path_of))
    node = links.node[link]
    series = path // width
    nodes, at = numbered(node)
    cluster = np.zeros(len(nodes), np.int64)
    cluster[at] = window.cluster[links.row[link]]
    return Paths(
        by_path=Groups(path_of, len(path)),
        client=series_key[series] // KINDS,
        kind=series_key[series] % KINDS,
        node=node,
        key=series_key[series] * PATHS + node,
        by_series=Groups(series, len(series_key)),
        by_node=Groups(at, len(nodes)),
        nodes=nodes,
        cluster=cluster,
    )

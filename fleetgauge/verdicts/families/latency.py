"""Slow brokers, slow clients, and slow paths between one client and one broker.

A window's latencies are taken apart in `verdicts.families.parts`.

A client or broker that is slow from its first window on has no history: a client is compared with its peers, a
broker with the others of its clients. See `verdicts.families.peers`.

A fetch waits for data, so that a consumer's latency follows its traffic. What it takes to commit offsets does not: see
`verdicts.families.commits`.
"""

from typing import Final

import numpy as np

from fleetgauge.verdicts.arrow import Numbers
from fleetgauge.verdicts.declare import OWN_HISTORY, PEERS, Finding, Verdict
from fleetgauge.verdicts.families.commits import slow_commits
from fleetgauge.verdicts.families.franz_go import CLEARLY
from fleetgauge.verdicts.families.parts import ALIKE, longer_than_usual, parts_of
from fleetgauge.verdicts.families.peers import beside_other_nodes, beside_peers
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.paths import paths_of
from fleetgauge.verdicts.registry import PATHS
from fleetgauge.verdicts.rules import Figures
from fleetgauge.verdicts.window import DIALECTS, Subjects, Window


def _slow_node(window: Window, memory: Memory, figures: Figures) -> Finding | None:
    parts, paths = parts_of(window, memory, figures), paths_of(window)
    at, count = paths.by_node.of, len(paths.nodes)
    is_slow = parts.value - parts.expected - np.nan_to_num(parts.client_part) > np.log(figures["factor"])
    clients = np.bincount(at[parts.is_telling & ~np.isnan(parts.value)], minlength=count)
    slow = np.bincount(at[parts.is_telling & is_slow], minlength=count)
    enough = clients >= figures["least_clients"]
    most = slow >= figures["share"] * clients
    is_above = parts.node_effect > np.log(figures["factor"])
    effect = np.where(is_above & ~most, 0.0, parts.node_effect)
    base = np.where(enough & ~np.isnan(parts.node_effect), 0.0, np.nan)
    # Other nodes are not slow, whatever is usual.
    may_be = ~np.isnan(base) & (is_above & most | np.isin(paths.nodes, memory.codes("slow-node")))
    if may_be.any():  # medians of large groups take long
        base[may_be] = paths.by_node.medians(np.where(may_be[at], parts.expected, np.nan))[may_be]
    test = longer_than_usual(
        base, effect, figures["factor"], figures["least_ms"],
        "requests to node {subject} take {observed} (usually {expected}) for {slow} of {clients} clients",
        slow=slow, clients=clients,
    )  # fmt: skip
    others = beside_other_nodes(parts.value, paths.by_series, paths.by_node, parts.wait == 0, figures)
    by_others = longer_than_usual(
        others.expected, others.effect, figures["factor"], figures["far_ms"],
        "requests to node {subject} take {observed} (to other nodes {expected}) for {slow} of {clients} clients, "
        "longer than distance explains",
        slow=others.slow, clients=others.clients,
    )  # fmt: skip
    is_slow |= others.is_slow
    proves = (parts.wait == 0) | (parts.value > parts.wait)
    return Finding(
        subjects=Subjects("node", paths.nodes, np.zeros(0, np.int64)),
        tests=[test, by_others],
        unit_of=np.arange(count),
        concerned=lambda place: np.unique(window.links.row[((at == place) & is_slow)[paths.by_path.of]]),
        certainty=np.where(test.is_bad, OWN_HISTORY, PEERS),
        left_out={
            f"fewer than {figures['least_clients']:.0f} of its clients sent a latency": ~enough,
            "the usual latency of its clients is not known yet": enough & ~test.is_known,
            "its clients are consumers, and a delay within the time that their fetches wait for data does not show":
                np.bincount(at[proves], minlength=count) == 0,
        },
    )  # fmt: skip


def _slow_client(window: Window, memory: Memory, figures: Figures) -> Finding | None:
    parts, paths = parts_of(window, memory, figures), paths_of(window)
    series, count = paths.by_series.of, len(paths.by_series)
    expected = paths.by_series.medians(parts.expected)
    effect = np.full(count, np.nan)
    effect[series] = parts.client_part
    client = np.zeros(count, np.int64)
    client[series] = paths.client
    nodes = np.bincount(series, minlength=count)
    test = longer_than_usual(
        expected, effect, figures["factor"], figures["least_ms"],
        "requests of {subject} take {observed} (usually {expected}) at each of its {nodes} brokers, which are healthy",
        noise=paths.by_series.medians(parts.noise), nodes=nodes,
    )  # fmt: skip
    tests, is_hint = [test], np.zeros(count, np.bool_)
    if figures.is_on("by_peers"):
        value = np.maximum(parts.value, parts.wait)
        peers = beside_peers(window, paths.by_path.of, series, paths.by_node.of, value, figures)
        # As far away as it was before: noise of that is no reason to begin or to end a hint.
        is_as_before = peers.may_be_far & (effect < ALIKE)
        peers.effect[is_as_before & (peers.effect > 0)] = np.nan
        tests.append(
            longer_than_usual(
                peers.expected, peers.effect, figures["factor"], figures["least_ms"],
                "requests of {subject} take {observed} ({expected} for {peers} peer instances) at each of its {nodes} "
                "brokers",
                nodes=nodes, peers=peers.instances,
            )
        )  # fmt: skip
        is_hint = ~test.is_bad & peers.may_be_far
    # Further units: a client id, by the commits of its consumers.
    commits, clients = slow_commits(window, memory, parts, figures), window.clients
    waits = (window.link_count > 0) | ~np.isnan(window.rows.number("commit_latency_avg_ms"))
    # franz-go sends no mean: until its longest requests show a delay, it cannot be told from load.
    is_busier = (paths.by_series.medians(parts.busier, low=True) >= CLEARLY) & ~test.is_bad
    is_busier &= ~np.isin(client, memory.codes("slow-client"))
    return Finding(
        subjects=clients,
        tests=[*(each.among(0, len(clients)) for each in tests), commits.among(count, 0)],
        unit_of=np.concatenate([np.searchsorted(clients.codes, client), np.arange(len(clients))]),
        concerned=lambda place: (rows := clients.rows_of(place))[waits[rows]],
        certainty=np.concatenate([np.where(test.is_bad, OWN_HISTORY, PEERS), np.full(len(clients), OWN_HISTORY)]),
        is_hint=np.concatenate([is_hint, np.zeros(len(clients), np.bool_)]),
        left_out={
            "its requests take more of its time at all brokers, which more load does too, and its longest do not show "
            "a delay": np.concatenate([is_busier, np.zeros(len(clients), np.bool_)]),
        },
    )


def _slow_path(window: Window, memory: Memory, figures: Figures) -> Finding | None:
    parts = parts_of(window, memory, figures)
    paths = paths_of(window)
    series = paths.by_series.of
    sizes = np.bincount(series, minlength=len(series) + 1)[series]
    # Compared with the path's usual latency plus the parts of its node and its client: `least_ms` counts from there.
    common = parts.own - parts.path_part
    # A producer of franz-go with more busy time may be slow there, too, though its longest requests do not show it.
    is_clean = (parts.own - parts.node_part < ALIKE) & ~np.isnan(parts.own) & ~(parts.busier >= ALIKE)
    is_clean &= ~parts.is_hidden
    clean = np.bincount(series[is_clean], minlength=len(sizes) + 1)[series]
    test = longer_than_usual(
        parts.expected + common, parts.path_part, figures["factor"], figures["least_ms"],
        "requests on path {subject} take {observed} (usually {expected}), while the other {others} brokers of the "
        "client answer as before",
        noise=parts.noise, others=sizes - 1,
    )  # fmt: skip
    # Only paths that are bad, or were: there are several for each client.
    code = paths.client * PATHS + paths.node
    is_subject = test.is_bad | np.isin(code, memory.codes("slow-path"))
    subjects = Subjects.by("path", np.where(is_subject, code, -1))
    return Finding(
        subjects=subjects,
        tests=[test],
        unit_of=subjects.of_row,
        judged=clean > 0,
        concerned=lambda place: _rows_of_paths(window, subjects.rows_of(place)),
        certainty=OWN_HISTORY,
    )


def _rows_of_paths(window: Window, paths: Numbers) -> Numbers:
    """Rows of the clients that have links on some paths."""
    by_path = paths_of(window).by_path
    links = np.concatenate([by_path.places(path) for path in paths.tolist()])
    rows: Numbers = window.links.row[links]
    return rows


_EVERY: Final = dict.fromkeys(DIALECTS, ("request_latency_avg_ms",))

OF_NODES: Final = (
    Verdict(
        id="slow-node",
        kind="node",
        side="broker",
        find=_slow_node,
        action="Check disk, CPU, network and request queue of broker {subject}; move leaders away while it is slow.",
        needs=_EVERY,
        # Not slow-client, slow-path or deploy-regression: these are judged without the node's part.
        # Records fail after 120 s (delivery.timeout.ms) in a full or long queue, which is the verdict `buffer-full`.
        explains=("buffer-full", "lagging"),
    ),
)

OF_CLIENTS: Final = (
    Verdict(
        id="slow-client",
        find=_slow_client,
        action="Check the machine and network of {subject}: CPU limits, garbage collection, bandwidth.",
        needs=dict.fromkeys(DIALECTS, ("request_latency_avg_ms", "commit_latency_avg_ms")),
        explains=("buffer-full", "lagging"),
        history="slow-node",
    ),
    Verdict(
        id="slow-path",
        kind="path",
        side="network",
        find=_slow_path,
        action="Check the network between {client} and broker {node}: routing, zone, packet loss.",
        needs=_EVERY,
        explains=("buffer-full", "lagging"),
        history="slow-node",
    ),
)

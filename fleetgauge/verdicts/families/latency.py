"""Slow brokers, slow clients, and slow paths between one client and one broker.

The excess of a window's latencies over their own history (by client id, role, library and node; log) is split by a
median polish over clients and nodes: the part that most clients of a node have in common is the node's, the part that a
client has at most of its nodes is the client's, and the rest is the path's. A far region was always slow: its history
has it.

A client or broker that is slow from its first window on has no such history: a client is compared with its peers, a
broker with the others of its clients. See `verdicts.families.peers`.

A fetch waits for data, so that a consumer's latency follows its traffic. A commit of offsets waits for nothing: a
consumer whose commits take longer, and its fetches from all brokers too, is slow itself.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from fleetgauge.verdicts.arrow import Numbers
from fleetgauge.verdicts.declare import OWN_HISTORY, PEERS, Finding, Threshold, Verdict
from fleetgauge.verdicts.families.peers import beside_other_nodes, beside_peers
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.paths import Paths, paths_of
from fleetgauge.verdicts.registry import PATHS
from fleetgauge.verdicts.rules import Figures
from fleetgauge.verdicts.window import (
    CONSUMER,
    DIALECTS,
    FRANZ_GO,
    JAVA,
    LONGEST_COVERED_S,
    PRODUCER,
    Groups,
    Subjects,
    Window,
    medians,
    numbered,
)
from fleetgauge.verdicts.witnesses.waits import FETCH_WAIT_MS, LEAST_CLIENTS, waits_for_poll

_ROUNDS: Final = 3

_MOST_DELAYS: Final = 3.0
"""Most that a client sees of a broker's delay [times the delay that most clients see]: larger requests may see more of
it, but it does not multiply a latency. If near clients take 55 ms instead of 5, a far one of 80 ms takes 130 or at most
230, not 880."""

_UNCERTAIN: Final = 1 / 3
"""Error of a coordinator's delay that is subtracted from commits, as a share of it."""

_OF_COMMITS: Final = 0.5
"""Least delay of a slow client's fetches, as a share of the delay of its commits: a fetch that waits for data has all
of it if there is none, and less if more data arrived meanwhile."""

_ALIKE: Final = float(np.log(1.3))
"""Latencies this near to the usual ones (log) are as before."""


_OTHERS: Final = 2
_OF_ALL: Final = 0.1
"""Number of other producers, and share of a cluster's, above which one broker may be why they are slower at all."""

_NOISE: Final = float(np.log(1.1))
"""Factor (log) within which the latencies of clients of a slow broker are the same."""

_SPREAD: Final = float(np.log(1.5))
"""Factor (log) within which clients of a slow broker differ, though it is the broker that is slow."""

_CLEARLY: Final = float(np.log(2.5))
"""Ratio (log) that is beyond every bound by itself."""


@dataclass(slots=True)
class Parts:
    """The latencies of a window taken apart: one entry per path of `paths_of`.

    Attributes:
        link_value: value of each link.
        value: log(1 + latency [ms]) of each path.
        expected: the same by history; NaN for paths without one, which are not judged.
        node_part: part of each path's excess that the paths of its node have in common.
        client_part: part of each path's excess that its series has in common beside that.
        wait: longest wait of a consumer's fetch for data; 0 for others.
        own: excess over history that cannot be a wait of a fetch for data.
        is_telling: see `_is_telling`.
        node_effect: of each node, less what all nodes of its cluster have in common.
        node_delay_ms: delay of each node for most clients.
        noise: of each path, over five minutes (log).
    """

    link_value: Numbers
    value: Numbers
    expected: Numbers
    node_part: Numbers
    client_part: Numbers
    wait: Numbers
    own: Numbers
    is_telling: Numbers
    node_effect: Numbers
    node_delay_ms: Numbers
    noise: Numbers


def parts_of(window: Window, memory: Memory, figures: Figures) -> Parts:
    """The parts, computed once per window by the figures of slow-node; updates the histories."""
    return window.once("latency", lambda: _parts(window, memory, figures.of["slow-node"]))


def _parts(window: Window, memory: Memory, figures: Figures) -> Parts:
    links, history, paths = window.links, memory.history("latency"), paths_of(window)
    row, kind, key, by_path = links.row, paths.kind, paths.key, paths.by_path
    by_series, by_node = paths.by_series, paths.by_node
    path_of, at = by_path.of, by_node.of
    least_s = figures.history_s(window.length_s)
    before = history.expected(key, least_s)
    measured = np.log1p(links.latency_ms)
    # Latencies above the usual ones are not evidence if the consumer measured them while it was away from poll().
    usual = before[path_of]
    is_away = _waits_for_poll(window)[row] & (links.role == CONSUMER)
    any_away = is_away.any()
    link_value = np.where(is_away, np.minimum(measured, usual), measured) if any_away else measured
    # Connections, class loading and empty caches make a client's start slow: that is nothing to compare with.
    age_us = window.begin_us - memory.instances["first_us"][window.instance[row]]
    is_young = age_us < figures["young_s"] * 1_000_000
    value = longest = by_path.medians(link_value)
    learned = by_path.medians(np.where(is_young, np.nan, measured)) if any_away or is_young.any() else value
    is_longest = kind == FRANZ_GO + 1
    if is_longest.any():
        value = _by_both(longest, before, _busier(window, memory, np.where(is_young, np.nan, links.busy), least_s))
        link_value = link_value + (value - longest)[path_of]
    wait = np.where(kind // 4 == CONSUMER, np.log1p(FETCH_WAIT_MS[kind % 4 - 1]), 0.0)
    is_known = ~np.isnan(value - before)
    is_telling = _is_telling(wait == 0, is_known, by_node)
    tells_ms = is_telling & _is_telling((wait == 0) & ~is_longest, is_known, by_node)
    before_ms = _ms(before)
    node_effect, node_delay_ms = _of_nodes(
        window,
        memory,
        np.where(is_telling, value - before, np.nan),
        np.where(tells_ms, _ms(value) - before_ms, np.nan),
    )
    own = np.maximum(value, wait) - np.maximum(before, wait)
    common = _part_of(np.fmax(node_effect, 0)[at], node_delay_ms[at], own, before, is_longest)
    own_client = by_series.medians(own - common, low=True)
    extra_ms = _ms(before + own) - before_ms - node_delay_ms[at]
    followed = _by_followers(paths, own_client, own - common, extra_ms, before, node_effect)
    if followed is not None:
        common += followed[by_series.of]
        own_client = by_series.medians(own - common, low=True)
    noise = history.noise(key) * _of_five_minutes(window)
    history.learn(key, learned, window.seconds_of(paths.client), least_s)
    return Parts(
        link_value=link_value, value=value, expected=before, node_part=common,
        client_part=own_client[by_series.of], wait=wait, own=own, is_telling=is_telling,
        node_effect=_less_common(node_effect, paths.cluster, figures["least_nodes"]), node_delay_ms=node_delay_ms,
        noise=noise,
    )  # fmt: skip


def _of_five_minutes(window: Window) -> float:
    """The noise of five minutes per that of a shorter window, as of real clients: 0.14 and 0.19 of 60 s."""
    return float(min(window.length_s / LONGEST_COVERED_S, 1.0) ** 0.22)


def _busier(window: Window, memory: Memory, busy: Numbers, least_s: float) -> Numbers:
    """Ratio of the busy time of each path to the usual (log); NaN but for franz-go's producers. Updates the history.

    Args:
        window: of the paths.
        memory: has the history.
        busy: see `Links`; NaN for links that the history leaves out.
        least_s: see `History`.
    """
    paths, history = paths_of(window), memory.history("busy")
    links = np.flatnonzero(~np.isnan(window.links.busy))
    own, of_links = numbered(paths.by_path.of[links])
    by_path, key = Groups(of_links, len(own)), paths.key[own]
    ratio = np.full(len(paths.key), np.nan)
    ratio[own] = by_path.medians(np.log(window.links.busy[links])) - history.expected(key, least_s)
    learned = by_path.medians(np.log(busy[links]))
    history.learn(key, learned, window.seconds_of(paths.client[own]), least_s)
    return ratio


def _by_both(longest: Numbers, usual: Numbers, busier: Numbers) -> Numbers:
    """Latency (log) by two measures, of which neither is enough: the longest request, and the busy time of a link.

    One slow request raises only the longest, from 30 to 250 ms, and load only the busy time. So the smaller of the two
    ratios counts; a small one, since the longest of many requests is long anyway, as far as the geometric mean of both,
    its own square and `_CLEARLY` allow: 1.6 and 3.8 are 2.5, while 8.3 and 1.0 are 1.0, 1.1 and 4 (four times the load)
    1.2, and 50 and 80 are 50.
    """
    longer = longest - usual
    less = np.minimum(longer, busier)
    small = np.minimum((longer + busier) / 2, np.minimum(2 * less, _CLEARLY))
    both = usual + np.maximum(less, small)
    return np.where(np.isnan(both), longest, both)


def _waits_for_poll(window: Window) -> Numbers:
    links = window.links
    return waits_for_poll(window.rows.number, window.dialect == JAVA, links.row, links.latency_ms)


def _part_of(shared: Numbers, delay_ms: Numbers, own: Numbers, usual: Numbers, is_longest: Numbers) -> Numbers:
    """Part of each path's excess that it shares with others (log).

    It raises a mean by at least the delay of the others [ms], and by at most `_MOST_DELAYS` times that. The longest
    request does not follow from a mean delay: there the part is a factor, as shared, and up to `_SPREAD` more.

    Args:
        shared: excess of the others (log).
        delay_ms: the same [ms].
        own: excess of the path (log).
        usual: usual latency of the path (log).
        is_longest: True for paths of which the longest request is known, not the mean.
    """
    usual_ms = _ms(usual)
    least, most = (
        np.fmax(np.log1p(usual_ms + times * delay_ms) - usual, 0.0)  # fmax: 0 where one is unknown
        for times in (1.0, _MOST_DELAYS)
    )
    of_longest = np.minimum(shared + np.minimum(shared, _SPREAD), np.fmax(own, 0))
    parts: Numbers = np.where(is_longest, of_longest, np.maximum(np.minimum(shared, most), least))
    return parts


def _by_followers(
    paths: Paths, longer: Numbers, rest: Numbers, extra_ms: Numbers, usual: Numbers, node_effect: Numbers
) -> Numbers | None:
    """Excess of producers at all brokers because a slow broker is their follower, for which `acks=all` waits.

    One per series (log); None if there is none. It is assumed if several producers of a cluster are slower at most of
    their brokers, but at the slow broker no slower than others: a client that is slow itself adds its delay there, too.
    The excess of one producer over most of them stays its own. If broker 3 takes 98 ms instead of 2, and 6 of 21
    producers take 12 ms instead of 3 at the others, none of the six is slow, but one that takes 40 ms is. And one whose
    distance to all brokers grew by 60 ms takes 158 ms at broker 3.

    Args:
        paths: of the window.
        longer: excess of each series at most of its nodes, without the nodes' parts (log).
        rest: excess of each path without its node's part (log).
        extra_ms: excess of each path over the delay of its node for most [ms].
        usual: usual latency of each path (log).
        node_effect: of each node (log).
    """
    series, at, clusters = paths.by_series.of, paths.by_node.of, int(paths.cluster.max(initial=0)) + 1
    kind, cluster = np.zeros((2, len(longer)), np.int64)
    kind[series], cluster[series] = paths.kind, paths.cluster[at]
    slowest = np.zeros(clusters)
    np.maximum.at(slowest, paths.cluster, np.fmax(node_effect, 0))
    is_known = (kind // 4 == PRODUCER) & ~np.isnan(longer)
    rises = is_known & (longer > _ALIKE) & (longer < slowest[cluster])
    usual = paths.by_series.medians(usual)
    longer_ms = _ms(usual + longer) - _ms(usual)
    is_added = (rest > _SPREAD) | ((rest > _NOISE) & (extra_ms > longer_ms[series] / 2))
    rises[series[(node_effect[at] > longer[series]) & is_added]] = False
    many, known = (np.bincount(cluster[each], minlength=clusters) for each in (rises, is_known))
    rises &= (many > np.maximum(_OTHERS, _OF_ALL * known))[cluster]
    if not rises.any():
        return None
    is_longest = kind == FRANZ_GO + 1
    shared = medians(np.where(rises, cluster, -1), longer, clusters, low=True)
    ms = medians(np.where(rises & ~is_longest, cluster, -1), longer_ms, clusters)
    return np.where(rises, _part_of(shared[cluster], ms[cluster], longer, usual, is_longest), 0.0)


def _of_nodes(window: Window, memory: Memory, above: Numbers, longer_ms: Numbers) -> tuple[Numbers, Numbers]:
    """Excess that the paths of each node have in common (log), and the delay of most of them [ms].

    A short window has only some of the clients. The others count with their last values: with pushes 60 s apart each
    window of 30 s has half of the clients, and if three of five in it are slow themselves, the broker need not be.

    Args:
        window: of the paths.
        memory: remembers the values of a short window's paths.
        above: excess of each path over the usual latency (log); NaN for paths that prove nothing about their node.
        longer_ms: the same [ms]; NaN also for longest requests where the node has enough means of others.
    """
    paths = paths_of(window)
    if window.length_s >= LONGEST_COVERED_S:
        by_node = paths.by_node
        return _polished(above, by_node, paths.by_series), np.fmax(by_node.medians(longer_ms), 0)
    keys, latest = _latest("above", above, window, memory)
    keys_ms, latest_ms = _latest("longer_ms", longer_ms, window, memory)
    nodes, at = numbered(np.concatenate([keys % PATHS, keys_ms % PATHS, paths.nodes]))
    of_keys, of_keys_ms, own = np.split(at, np.cumsum([len(keys), len(keys_ms)]))
    series, of_series = numbered(keys // PATHS)
    effect = _polished(latest, Groups(of_keys, len(nodes)), Groups(of_series, len(series)))
    delay_ms = np.fmax(medians(of_keys_ms, latest_ms, len(nodes)), 0)
    return effect[own], delay_ms[own]


def _latest(name: str, values: Numbers, window: Window, memory: Memory) -> tuple[Numbers, Numbers]:
    """Keys and values of all paths of the last five minutes, including these."""
    history = memory.history(name)
    history.put(paths_of(window).key, values, window.end_us // 1_000_000)
    return history.put_after(window.end_us // 1_000_000 - LONGEST_COVERED_S)


def _polished(above: Numbers, by_node: Groups, by_series: Groups) -> Numbers:
    """Excess that the paths of each node have in common, without that of their series; NaN where nothing is known."""
    rest = above
    for _ in range(_ROUNDS - 1):
        node = by_node.medians(rest)
        client = by_series.medians(above - np.nan_to_num(node)[by_node.of], low=True)
        rest = above - np.nan_to_num(client)[by_series.of]
    return by_node.medians(rest)


def _is_telling(is_short: Numbers, is_known: Numbers, by_node: Groups) -> Numbers:
    """True for paths that are evidence about their node: those of consumers only where it has few others.

    A request that takes 2 ms is 6 times as long with 10 ms in a broker's queue. A fetch that waits 80 ms for data is
    hardly longer, or not at all, since more data has gathered by then: it cannot show the delay, nor disprove it.
    """
    enough = np.bincount(by_node.of[is_short & is_known], minlength=len(by_node)) >= LEAST_CLIENTS
    return is_short | ~enough[by_node.of]


def _less_common(effect: Numbers, cluster: Numbers, least_nodes: float) -> Numbers:
    """Effects without the part that all nodes of a cluster, if these are enough, have in common: that is load."""
    known = ~np.isnan(effect)
    nodes = np.bincount(cluster[known], minlength=int(cluster.max(initial=0)) + 1)
    least = np.full(len(nodes), np.inf)
    np.minimum.at(least, cluster[known], effect[known])
    return effect - np.where(nodes >= least_nodes, np.fmax(least, 0), 0.0)[cluster]


def _ms(log: Numbers) -> Numbers:
    return np.expm1(log)


def _test(
    expected: Numbers, effect: Numbers, factor: float, least_ms: float, says: str,
    metric: str = "request_latency_avg_ms", noise: Numbers | None = None, **more: Numbers,
) -> Threshold:  # fmt: skip
    """Test that is bad where the effect is above the factor, and above `least_ms`."""
    observed = _ms(expected + effect)
    bound = np.maximum(_ms(expected + np.log(factor)), _ms(expected) + least_ms)
    return Threshold(
        metric=metric, unit="ms", observed=observed, bound=bound, expected=_ms(expected), says=says,
        more=more, is_mean=True, noise=noise,
    )  # fmt: skip


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
    test = _test(
        base, effect, figures["factor"], figures["least_ms"],
        "requests to node {subject} take {observed} (usually {expected}) for {slow} of {clients} clients",
        slow=slow, clients=clients,
    )  # fmt: skip
    others = beside_other_nodes(parts.value, paths.by_series, paths.by_node, parts.wait == 0, figures)
    by_others = _test(
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
    test = _test(
        expected, effect, figures["factor"], figures["least_ms"],
        "requests of {subject} take {observed} (usually {expected}) at each of its {nodes} brokers, which are healthy",
        noise=paths.by_series.medians(parts.noise), nodes=nodes,
    )  # fmt: skip
    tests, is_hint = [test], np.zeros(count, np.bool_)
    if figures.is_on("by_peers"):
        value = np.maximum(parts.value, parts.wait)
        peers = beside_peers(window, paths.by_path.of, series, paths.by_node.of, value, figures)
        tests.append(
            _test(
                peers.expected, peers.effect, figures["factor"], figures["least_ms"],
                "requests of {subject} take {observed} ({expected} for {peers} peer instances) at each of its {nodes} "
                "brokers",
                nodes=nodes, peers=peers.instances,
            )
        )  # fmt: skip
        is_hint = ~test.is_bad & peers.may_be_far
    # Further units: a client id, by the commits of its consumers.
    commits, clients = _slow_commits(window, memory, parts, figures), window.clients
    waits = (window.link_count > 0) | ~np.isnan(window.rows.number("commit_latency_avg_ms"))
    return Finding(
        subjects=clients,
        tests=[*(each.among(0, len(clients)) for each in tests), commits.among(count, 0)],
        unit_of=np.concatenate([np.searchsorted(clients.codes, client), np.arange(len(clients))]),
        concerned=lambda place: (rows := clients.rows_of(place))[waits[rows]],
        certainty=np.concatenate([np.where(test.is_bad, OWN_HISTORY, PEERS), np.full(len(clients), OWN_HISTORY)]),
        is_hint=np.concatenate([is_hint, np.zeros(len(clients), np.bool_)]),
    )


@dataclass(frozen=True, slots=True)
class Commits:
    """Latencies of commits [ms]; NaN where unknown.

    Attributes:
        own_ms: of each row, without the delay of its coordinator; unknown for all rows of a client or none.
        of_clients_ms: median of each client's.
        delay_ms: of each client, the delay of its coordinator.
    """

    own_ms: Numbers
    of_clients_ms: Numbers
    delay_ms: Numbers


def commits_of(window: Window, memory: Memory, figures: Figures) -> Commits:
    """The commits of a window, computed once."""
    return window.once("commits", lambda: _commits(window, memory, figures))


def _commits(window: Window, memory: Memory, figures: Figures) -> Commits:
    """Commits without the delay of each group's coordinator, or the longest of its cluster where that is not known.

    A coordinator's delay is that of its node, or that of the commits of most clients that it coordinates, if longer:
    its other requests may be fast.

    A delay is known to a third (`_UNCERTAIN`), and commits may see less of it. If one broker takes 100 ms longer,
    commits of 3 ms, as usual, do not have its delay, and are as they are; of 30 or 110 ms less is left than is
    uncertain, so that nothing is known of the client; of 160 ms 60 ms are left.
    """
    parts, paths = parts_of(window, memory, figures), paths_of(window)
    clients, coordinator = window.clients, window.coordinator
    commit_ms = _no_wait(window, "commit_latency_avg_ms")
    least_s = figures.of["slow-node"].history_s(window.length_s)
    usual = memory.history("commit_latency_avg_ms").expected(clients.codes, least_s)
    by_cluster = np.zeros(int(window.cluster.max(initial=-1)) + 1)
    np.maximum.at(by_cluster, paths.cluster, np.nan_to_num(parts.node_delay_ms))
    nodes, at = numbered(coordinator)
    of_node = np.zeros(len(nodes))
    is_known = np.isin(paths.nodes, nodes)
    of_node[np.searchsorted(nodes, paths.nodes[is_known])] = np.nan_to_num(parts.node_delay_ms[is_known])
    of_client = np.zeros(len(clients), np.int64)
    of_client[clients.of_row] = at
    longer_ms = np.where(nodes[of_client] >= 0, clients.median(commit_ms) - _ms(usual), np.nan)
    many = np.bincount(of_client[~np.isnan(longer_ms)], minlength=len(nodes)) >= LEAST_CLIENTS
    of_node = np.where(many, np.fmax(of_node, medians(of_client, longer_ms, len(nodes))), of_node)
    delay_ms = np.where(coordinator >= 0, of_node[at], by_cluster[window.cluster])
    is_without = np.log1p(commit_ms) - usual[clients.of_row] < _ALIKE
    delay_ms = np.where(is_without, 0.0, delay_ms)
    own_ms = np.fmax(commit_ms - delay_ms, 0.0) + 0 * commit_ms
    of_clients_ms, longest_ms = clients.median(own_ms), clients.max(delay_ms)
    of_clients_ms[of_clients_ms < _UNCERTAIN * longest_ms] = np.nan
    return Commits(np.where(np.isnan(of_clients_ms)[clients.of_row], np.nan, own_ms), of_clients_ms, longest_ms)


def _no_wait(window: Window, column: str) -> Numbers:
    """A latency of each row [ms]; NaN where its consumer was away from poll() long enough to explain it."""
    return window.once(f"no wait {column}", lambda: _not_away(window, column))


def _not_away(window: Window, column: str) -> Numbers:
    rows = window.rows
    latency_ms, client_of = rows.number(column), np.arange(len(window))
    is_away = waits_for_poll(rows.number, window.dialect == JAVA, client_of, np.fmax(latency_ms, 0))
    return np.where(is_away, np.nan, latency_ms)


def _slow_commits(window: Window, memory: Memory, parts: Parts, figures: Figures) -> Threshold:
    """Test of the commits of each client, without the delay of its coordinator.

    Unknown if the rest is less than a third of the subtracted delay, which is not exact: 7 ms beside the 230 ms of a
    slow coordinator. If the client's fetches (from each broker, if they are known by broker) take no longer, the
    coordinator or the path to it is slow; if they are unknown, so is the result.
    """
    of_nodes, clients = figures.of["slow-node"], window.clients
    own = commits_of(window, memory, figures)
    commits, delay_ms = np.log1p(own.of_clients_ms), own.delay_ms
    _, expected = _beside_usual("commit_latency_avg_ms", window, memory, of_nodes)
    fetches, usual = _beside_usual("fetch_latency_avg_ms", window, memory, of_nodes)
    effect, more_ms = commits - expected, _ms(commits) - _ms(expected)
    may_be = (effect > np.log(figures["factor"])) & (more_ms > figures["least_ms"])
    effect[may_be & (more_ms < _UNCERTAIN * delay_ms)] = np.nan
    if may_be.any():
        by_path = _fetches_by_path(window, parts, may_be)
        longer = np.where(np.isnan(by_path), fetches - usual, by_path)
        fetch_ms = _ms(fetches) - _ms(usual)
        is_longer = longer > np.log(figures["fetches_factor"])
        is_longer |= np.isnan(by_path) & (fetch_ms > _OF_COMMITS * more_ms)
        effect = np.where(may_be & ~is_longer, np.where(np.isnan(longer), np.nan, np.fmin(effect, 0.0)), effect)
    noise = memory.history("commit_latency_avg_ms").noise(clients.codes) * _of_five_minutes(window)
    return _test(
        expected, effect, figures["factor"], figures["least_ms"],
        "offset commits of {subject} take {observed} (usually {expected}), and its fetches take longer, while the "
        "brokers are healthy",
        "commit_latency_avg_ms", noise,
    )  # fmt: skip


def _beside_usual(column: str, window: Window, memory: Memory, figures: Figures) -> tuple[Numbers, Numbers]:
    """log(1 + latency [ms]) of each client, now and usually; NaN where unknown. Updates the history."""
    clients, history = window.clients, memory.history(column)
    taken = np.log1p(_no_wait(window, column))
    least_s = figures.history_s(window.length_s)
    usual = history.expected(clients.codes, least_s)
    is_young = window.begin_us - memory.instances["first_us"][window.instance] < figures["young_s"] * 1_000_000
    now = clients.median(taken)
    learned = clients.median(np.where(is_young, np.nan, taken)) if is_young.any() else now
    history.learn(clients.codes, learned, window.seconds_of(clients.codes), least_s)
    return now, usual


def fetches_wait_as_usual(window: Window, memory: Memory, figures: Figures, wanted: Numbers) -> Numbers:
    """True for the wanted rows whose fetches take as long as before on at least half of their links.

    Then data comes in bursts as before. False where that is not known.
    """
    parts = parts_of(window, memory, figures)  # also where none is wanted: it updates histories
    if not wanted.any():
        return wanted
    row, path = window.links.row, paths_of(window).by_path.of
    links = np.flatnonzero(wanted[row] & (parts.wait > 0)[path])
    off = np.abs(parts.value - parts.expected)[path[links]]
    return medians(row[links], off, len(window)) < _ALIKE


def _fetches_by_path(window: Window, parts: Parts, wanted: Numbers) -> Numbers:
    """Delay of the fetches of each wanted client from most of its brokers (log)."""
    by_client, codes, paths = np.full(len(wanted), np.nan), window.clients.codes, paths_of(window)
    place = np.searchsorted(codes, paths.client)
    is_one = (parts.wait > 0) & wanted[place]
    longer = paths.by_series.medians(np.where(is_one, parts.value - parts.expected - parts.node_part, np.nan), low=True)
    by_client[place[is_one]] = longer[paths.by_series.of[is_one]]
    return by_client


def _slow_path(window: Window, memory: Memory, figures: Figures) -> Finding | None:
    parts = parts_of(window, memory, figures)
    paths = paths_of(window)
    series = paths.by_series.of
    sizes = np.bincount(series, minlength=len(series) + 1)[series]
    # Compared with the path's usual latency plus the parts of its node and its client: `least_ms` counts from there.
    common = parts.node_part + np.fmax(parts.client_part, 0)
    is_clean = (parts.own - parts.node_part < _ALIKE) & ~np.isnan(parts.own)
    clean = np.bincount(series[is_clean], minlength=len(sizes) + 1)[series]
    test = _test(
        parts.expected + common, parts.own - common, figures["factor"], figures["least_ms"],
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

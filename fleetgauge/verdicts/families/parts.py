"""The latencies of a window taken apart: what brokers, clients and paths add to the usual ones.

The excess of a window's latencies over their own history (by client id, role, library and node; log) is split by a
median polish over clients and nodes: the part that most clients of a node have in common is the node's, the part that a
client has at most of its nodes is the client's, and the rest is the path's. A far region was always slow: its history
has it.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from fleetgauge.verdicts.arrow import Numbers
from fleetgauge.verdicts.declare import Threshold
from fleetgauge.verdicts.families.franz_go import Excess, excess_of
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.paths import Paths, paths_of
from fleetgauge.verdicts.registry import PATHS
from fleetgauge.verdicts.rules import Figures
from fleetgauge.verdicts.window import (
    CONSUMER,
    FRANZ_GO,
    JAVA,
    LONGEST_COVERED_S,
    PRODUCER,
    Groups,
    Window,
    medians,
    numbered,
    once,
)
from fleetgauge.verdicts.witnesses.waits import FETCH_WAIT_MS, LEAST_CLIENTS, waits_for_poll

_ROUNDS: Final = 3

_MOST_DELAYS: Final = 3.0
"""Most that a client sees of a broker's delay [times the delay that most clients see]: larger requests may see more of
it, but it does not multiply a latency. If near clients take 55 ms instead of 5, a far one of 80 ms takes 130 or at most
230, not 880."""

ALIKE: Final = float(np.log(1.3))
"""Latencies this near to the usual ones (log) are as before."""

_OTHERS: Final = 2
_OF_ALL: Final = 0.1
"""Number of other producers, and share of a cluster's, above which one broker may be why they are slower at all."""

_NOISE: Final = float(np.log(1.1))
"""Factor (log) within which the latencies of clients of a slow broker are the same."""

_SPREAD: Final = float(np.log(1.5))
"""Factor (log) within which clients of a slow broker differ, though it is the broker that is slow."""


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
        path_part: rest of each path's excess beside both; the client's is at least 0.
        own: excess over history that cannot be a wait of a fetch for data.
        busier: ratio of the busy time of franz-go's producers to the usual, without what others share (log); else NaN.
        is_telling: see `_is_telling`.
        node_effect: of each node, less what all nodes of its cluster have in common.
        node_delay_ms: delay of each node for most clients.
        noise: of each path, over five minutes (log).
        is_hidden: see `_is_hidden`.
    """

    link_value: Numbers
    value: Numbers
    expected: Numbers
    node_part: Numbers
    client_part: Numbers
    path_part: Numbers
    wait: Numbers
    own: Numbers
    busier: Numbers
    is_telling: Numbers
    node_effect: Numbers
    node_delay_ms: Numbers
    noise: Numbers
    is_hidden: Numbers


@once
def parts_of(window: Window, memory: Memory, figures: Figures) -> Parts:
    """The parts by the figures of slow-node; updates the histories."""
    figures = figures.of["slow-node"]
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
    age_us = window.begin_us - memory.instances["first_us"][window.instance]
    is_young = (age_us < figures["young_s"] * 1_000_000)[row]
    value = longest = by_path.medians(link_value)
    learned = by_path.medians(np.where(is_young, np.nan, measured)) if any_away or is_young.any() else value
    is_longest = kind == FRANZ_GO + 1
    excess = None
    if is_longest.any():
        excess = excess_of(window, memory, longest, before, np.where(is_young, np.nan, links.busy), least_s)
        value = longest.copy()
        value[excess.at] = before[excess.at] + excess.both()
        link_value = link_value + (value - longest)[path_of]
    wait = np.where(kind // 4 == CONSUMER, np.log1p(FETCH_WAIT_MS[kind % 4 - 1]), 0.0)
    is_known = ~np.isnan(value - before)
    is_telling = _is_telling(wait == 0, is_known, by_node)
    tells_ms = is_telling & _is_telling((wait == 0) & ~is_longest, is_known, by_node)
    before_ms = to_ms(before)
    node_effect, node_delay_ms = _of_nodes(
        window,
        memory,
        np.where(is_telling, value - before, np.nan),
        np.where(tells_ms, to_ms(value) - before_ms, np.nan),
    )
    own = np.maximum(value, wait) - np.maximum(before, wait)
    common = _part_of(np.fmax(node_effect, 0)[at], node_delay_ms[at], own, before, is_longest)
    longer_ms = to_ms(before + own) - before_ms
    is_hidden = _is_hidden(paths, own - common, longer_ms, before_ms, node_effect, node_delay_ms, is_longest)
    own_client = _of_client(own - common, is_hidden, by_series)
    extra_ms = longer_ms - node_delay_ms[at]
    followed = _by_followers(paths, own_client, own - common, extra_ms, before, node_effect)
    if followed.any():
        common += followed[by_series.of]
        own_client = _of_client(own - common, is_hidden, by_series)
    path_part, busier = own - common - np.fmax(own_client, 0)[by_series.of], np.full(len(own), np.nan)
    if excess is not None:
        rest = _within_measures(excess, paths, np.fmax(node_effect, 0), followed)
        busier[rest.at] = rest.busier
        # The longest of many requests to a slow broker is longer by anything: no milliseconds are shared there.
        is_apart = ~(node_effect > np.log(figures["factor"]))[at[rest.at]]
        apart = rest.at[is_apart]
        common[apart] = own[apart] - rest.both()[is_apart]
        own_client = _of_client(own - common, is_hidden, by_series)
        path_part = own - common - np.fmax(own_client, 0)[by_series.of]
        # Load raises the busy time of all paths of a client: what they share is no path's.
        series = by_series.of[rest.at]
        of_client = (np.fmax(each, 0)[series] for each in rest.of_series(Groups(series, len(by_series))))
        path_part[apart] = rest.without(*of_client).both()[is_apart]
    noise = history.noise(key) * of_five_minutes(window)
    history.learn(key, learned, window.seconds_of(paths.client), least_s)
    return Parts(
        link_value=link_value, value=value, expected=before, node_part=common,
        client_part=own_client[by_series.of], path_part=path_part, wait=wait, own=own, busier=busier,
        is_telling=is_telling,
        node_effect=_less_common(node_effect, paths.cluster, figures["least_nodes"]), node_delay_ms=node_delay_ms,
        noise=noise, is_hidden=is_hidden,
    )  # fmt: skip


def _of_client(rest: Numbers, is_hidden: Numbers, by_series: Groups) -> Numbers:
    """Excess that the paths of each series have in common beside that of their nodes (log)."""
    return by_series.medians(np.where(is_hidden, np.nan, rest), low=True)


def _is_hidden(
    paths: Paths,
    rest: Numbers,
    longer_ms: Numbers,
    usual_ms: Numbers,
    node_effect: Numbers,
    node_delay_ms: Numbers,
    is_longest: Numbers,
) -> Numbers:
    """True for paths to a slow broker that are as slow as it, and at which no delay of the client would show.

    A client waits 17 ms longer at one of two brokers, while the other takes 240 ms for all: 257 ms beside 240 are
    alike, so that the second path proves neither that the client is slow nor that it is not. Of longest requests 370 ms
    are alike, too (see `_part_of`), where the client is slow at most of its other brokers.

    Args:
        paths: of the window.
        rest: excess of each path without its node's part (log).
        longer_ms: excess of each path over its history.
        usual_ms: its usual latency.
        node_effect: of each node (log).
        node_delay_ms: of each node.
        is_longest: True for paths of which the longest request is known, not the mean.
    """
    series, at = paths.by_series.of, paths.by_node.of
    is_slow = (node_effect > ALIKE)[at] & (rest < ALIKE)
    most_ms = np.zeros(len(paths.by_series))
    np.maximum.at(most_ms, series, np.where(is_slow, 0.0, np.fmax(longer_ms, 0.0)))
    most_ms, base_ms = most_ms[series], usual_ms + np.fmax(node_delay_ms, 0.0)[at]
    hidden: Numbers = is_slow & (most_ms > 0) & (np.log1p(base_ms + most_ms) - np.log1p(base_ms) < ALIKE)
    if (is_slow & is_longest).any():
        others, others_ms = (
            paths.by_series.medians(np.where(is_slow, np.nan, each), low=True)[series] for each in (rest, longer_ms)
        )
        hides = np.log1p(base_ms + np.fmax(others_ms, 0.0)) - np.log1p(base_ms) < ALIKE + _SPREAD
        hidden |= is_slow & is_longest & (others > ALIKE) & hides
    return hidden


def of_five_minutes(window: Window) -> float:
    """The noise of five minutes per that of a shorter window, as of real clients: 0.14 and 0.19 of 60 s."""
    return float(min(window.length_s / LONGEST_COVERED_S, 1.0) ** 0.22)


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
    usual_ms = to_ms(usual)
    least, most = (
        np.fmax(np.log1p(usual_ms + times * delay_ms) - usual, 0.0)  # fmax: 0 where one is unknown
        for times in (1.0, _MOST_DELAYS)
    )
    of_longest = np.minimum(shared + np.minimum(shared, _SPREAD), np.fmax(own, 0))
    parts: Numbers = np.where(is_longest, of_longest, np.maximum(np.minimum(shared, most), least))
    return parts


def _by_followers(
    paths: Paths, longer: Numbers, rest: Numbers, extra_ms: Numbers, usual: Numbers, node_effect: Numbers
) -> Numbers:
    """Excess of producers at all brokers because a slow broker is their follower, for which `acks=all` waits.

    One per series (log); 0 for others. It is assumed if several producers of a cluster are slower at most of
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
    rises = is_known & (longer > ALIKE) & (longer < slowest[cluster])
    usual = paths.by_series.medians(usual)
    longer_ms = to_ms(usual + longer) - to_ms(usual)
    is_added = (rest > _SPREAD) | ((rest > _NOISE) & (extra_ms > longer_ms[series] / 2))
    rises[series[(node_effect[at] > longer[series]) & is_added]] = False
    many, known = (np.bincount(cluster[each], minlength=clusters) for each in (rises, is_known))
    rises &= (many > np.maximum(_OTHERS, _OF_ALL * known))[cluster]
    if not rises.any():
        return np.zeros(len(longer))
    is_longest = kind == FRANZ_GO + 1
    shared = medians(np.where(rises, cluster, -1), longer, clusters, low=True)
    ms = medians(np.where(rises & ~is_longest, cluster, -1), longer_ms, clusters)
    return np.where(rises, _part_of(shared[cluster], ms[cluster], longer, usual, is_longest), 0.0)


def _within_measures(excess: Excess, paths: Paths, node_effect: Numbers, followed: Numbers) -> Excess:
    """The excess of franz-go's producers without what they share, taken off within each of both measures.

    They share milliseconds of the longest request, and a factor of the busy time. Where few of them show it, or the
    longest requests of a broker are longer by chance, the factor of all clients counts for both. Five producers follow
    a slow broker: at others they are busy 1.8 times as long as usual, and their longest requests take 2 ms more. One
    that is 12 times as busy on one path, and whose longest request takes 190 ms in place of 110, is left with
    12 / 1.8 / 1.5 (see `_SPREAD`) = 4.4 times and 188 ms.

    Args:
        excess: of some paths.
        paths: of the window.
        node_effect: excess that all paths of each node share (log).
        followed: excess of each series as a follower of a slow broker (log).
    """
    at, series = paths.by_node.of[excess.at], paths.by_series.of[excess.at]
    by_node, by_series = Groups(at, len(paths.nodes)), Groups(series, len(paths.by_series))
    few = np.bincount(at, minlength=len(by_node)) < LEAST_CLIENTS
    few |= node_effect <= ALIKE
    longer_ms, busier = (_polished(each, by_node, by_series) for each in (excess.longer_ms, excess.busier))
    rest = _without(excess, few[at], longer_ms[at], busier[at], node_effect[at])
    # The same for the series that follow, cluster by cluster.
    own_ms, own_busier = rest.of_series(by_series)
    cluster = np.zeros(len(by_series), np.int64)
    cluster[series] = paths.cluster[at]
    clusters = int(cluster.max(initial=0)) + 1
    follows = np.where((followed > 0) & ~np.isnan(own_busier), cluster, -1)
    few = np.bincount(follows[follows >= 0], minlength=clusters)[cluster] < LEAST_CLIENTS
    few |= follows < 0
    longer_ms, busier = (medians(follows, each, clusters, low=True)[cluster] for each in (own_ms, own_busier))
    return _without(rest, few[series], longer_ms[series], busier[series], followed[series])


def _without(excess: Excess, few: Numbers, longer_ms: Numbers, busier: Numbers, factor: Numbers) -> Excess:
    """The excess without what others show, up to `_SPREAD` more of a factor; without `factor` where few show it."""
    shared = np.fmax(np.where(few, factor, busier), 0)
    shared += np.minimum(shared, _SPREAD)
    return excess.without(np.where(few, (excess.usual_ms + 1) * np.expm1(shared), longer_ms), shared)


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


def to_ms(log: Numbers) -> Numbers:
    """Latencies [ms] of their logarithms: see `Parts.value`."""
    return np.expm1(log)


def longer_than_usual(
    expected: Numbers, effect: Numbers, factor: float, least_ms: float, says: str,
    metric: str = "request_latency_avg_ms", noise: Numbers | None = None, **more: Numbers,
) -> Threshold:  # fmt: skip
    """Test that is bad where the effect is above the factor, and above `least_ms`."""
    observed = to_ms(expected + effect)
    bound = np.maximum(to_ms(expected + np.log(factor)), to_ms(expected) + least_ms)
    return Threshold(
        metric=metric, unit="ms", observed=observed, bound=bound, expected=to_ms(expected), says=says,
        more=more, is_mean=True, noise=noise,
    )  # fmt: skip

"""Commits of offsets, and what fetches say of them.

A fetch waits for data. A commit waits for nothing: a consumer whose commits take longer, and its fetches from all
brokers too, is slow itself.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from fleetgauge.verdicts.arrow import Numbers
from fleetgauge.verdicts.declare import Threshold
from fleetgauge.verdicts.families.parts import ALIKE, Parts, longer_than_usual, of_five_minutes, parts_of, to_ms
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.paths import paths_of
from fleetgauge.verdicts.rules import Figures
from fleetgauge.verdicts.window import CONSUMER, FRANZ_GO, JAVA, Window, medians, numbered, once
from fleetgauge.verdicts.witnesses.waits import FETCH_WAIT_MS, LEAST_CLIENTS, waits_for_poll

_UNCERTAIN: Final = 1 / 3
"""Error of a coordinator's delay that is subtracted from commits, as a share of it."""

_UNCERTAIN_OF_LONGEST: Final = 3.0
"""The same of franz-go's longest commits: the worst of 60 takes some four times a broker's mean delay."""

_LEAST_SEEN: Final = 0.25
"""Least part of its delay that the commits see that a broker answers."""

_OF_COMMITS: Final = 0.4
"""Least delay of a slow client's fetches, as a share of the delay of its commits: a fetch that waits for data has all
of it if there is none, and less if more data arrived meanwhile: 108 ms raised waits of 450 ms by 41 to 54."""

_LONGEST_WAIT_MS: Final = float(FETCH_WAIT_MS[JAVA])
"""Longest wait for data of Java's fetches, as of librdkafka's; those of franz-go are not asked."""

_UNSURE: Final = 2.5
"""Distance within which a fetch may have a delay [times its noise, which is a mean distance: two standard deviations].
"""


@dataclass(frozen=True, slots=True)
class Commits:
    """Latencies of commits [ms]; NaN where unknown.

    Attributes:
        own_ms: of each row, without the delay of its coordinator; unknown for all rows of a client or none.
        of_clients_ms: median of each client's.
        uncertain_ms: of each client, the least that has to be left without the delay of its coordinator.
        called: of each client, what the sentences call them.
    """

    own_ms: Numbers
    of_clients_ms: Numbers
    uncertain_ms: Numbers
    called: Numbers


@once
def commits_of(window: Window, memory: Memory, figures: Figures) -> Commits:
    """Commits without the delay of each group's coordinator, or one of its cluster where that is not known.

    A coordinator's delay is that of its node, or that of the commits of most clients that it coordinates, if longer:
    its other requests may be fast.

    A delay is known to a third (`_UNCERTAIN`), and commits may see less of a coordinator's. If it takes 100 ms longer,
    commits of 3 ms, as usual, do not have its delay, and are as they are; of 30 or 110 ms less is left than is
    uncertain, so that nothing is known of the client; of 160 ms 60 ms are left.
    """
    parts, paths = parts_of(window, memory, figures), paths_of(window)
    clients, coordinator = window.clients, window.coordinator
    commit_ms, of_nodes = _commit_ms(window), figures.of["slow-node"]
    usual = memory.history("commit_latency_avg_ms").expected(clients.codes, of_nodes.history_s(window.length_s))
    is_longest = window.dialect == FRANZ_GO
    if is_longest.any():
        commit_ms = np.minimum(commit_ms, _by_share(usual, window, memory, of_nodes))
    nodes, at = numbered(coordinator)
    of_node = np.zeros(len(nodes))
    is_known = np.isin(paths.nodes, nodes)
    of_node[np.searchsorted(nodes, paths.nodes[is_known])] = np.nan_to_num(parts.node_delay_ms[is_known])
    of_client = np.zeros(len(clients), np.int64)
    of_client[clients.of_row] = at
    longer_ms = np.where(nodes[of_client] >= 0, clients.median(commit_ms) - to_ms(usual), np.nan)
    many = np.bincount(of_client[~np.isnan(longer_ms)], minlength=len(nodes)) >= LEAST_CLIENTS
    of_node = np.where(many, np.fmax(of_node, medians(of_client, longer_ms, len(nodes))), of_node)
    more_ms = commit_ms - to_ms(usual)[clients.of_row]
    anywhere_ms = _delay_anywhere(window, parts, commit_ms, more_ms, of_nodes)
    delay_ms = np.where(coordinator >= 0, of_node[at], anywhere_ms)
    is_without = np.log1p(commit_ms) - usual[clients.of_row] < ALIKE
    delay_ms = np.where(is_without, 0.0, delay_ms)
    own_ms = np.fmax(commit_ms - delay_ms, 0.0) + 0 * commit_ms
    of_clients_ms = clients.median(own_ms)
    uncertain_ms = clients.max(np.where(is_longest, _UNCERTAIN_OF_LONGEST, _UNCERTAIN) * delay_ms)
    of_clients_ms[of_clients_ms < uncertain_ms] = np.nan
    own_ms[np.isnan(of_clients_ms)[clients.of_row]] = np.nan
    called = np.full(len(clients), "offset commits", object)
    called[clients.count(is_longest) > 0] = "the longest offset commits"
    return Commits(own_ms, of_clients_ms, uncertain_ms, called)


def _delay_anywhere(window: Window, parts: Parts, commit_ms: Numbers, more_ms: Numbers, figures: Figures) -> Numbers:
    """Longest delay of a broker that the commits of each row may have if its coordinator is not known [ms].

    A commit that takes less than a quarter of a broker's delay is not that broker's: one of 43 ms while a broker takes
    330 ms longer, but perhaps one of 14 ms beside 43. If the client's fetches from most brokers, beside their delays,
    take longer by two fifths of what its commits do, and clearly (see `_UNSURE`), the delay is its own.

    Args:
        window: of the rows.
        parts: of its latencies.
        commit_ms: of each row.
        more_ms: what they take more than usual.
        figures: of slow-node.
    """
    nodes = paths_of(window).cluster, np.nan_to_num(parts.node_delay_ms)
    delay_ms = np.zeros(len(window))
    for cluster, longer_ms in zip(*(each[nodes[1] > figures["least_ms"]].tolist() for each in nodes), strict=True):
        has = (window.cluster == cluster) & (commit_ms >= _LEAST_SEEN * longer_ms)
        delay_ms[has] = np.maximum(delay_ms[has], longer_ms)
    clients = window.clients
    wanted = clients.count((delay_ms > 0) & (window.coordinator < 0) & (more_ms > figures["least_ms"])) > 0
    if wanted.any():
        longer, longer_ms, _, unsure = (each[clients.of_row] for each in _fetches_by_path(window, parts, wanted))
        is_own = (longer > unsure) & (longer_ms > _OF_COMMITS * more_ms)
        delay_ms[wanted[clients.of_row] & is_own] = 0.0
    return delay_ms


@once
def _commit_ms(window: Window) -> Numbers:
    """Mean latency of the commits of each row [ms]; for franz-go the longest, since its mean is a share of the time.

    See `Window.links`: it divides the sum of times by the push interval, not by the commits.
    """
    longest_ms = window.rows.number("commit_latency_max_ms")
    return np.where(window.dialect == FRANZ_GO, longest_ms, _no_wait(window, "commit_latency_avg_ms"))


def _by_share(usual: Numbers, window: Window, memory: Memory, figures: Figures) -> Numbers:
    """Most that the longest commit of each row of franz-go counts for [ms]: as far as its share of the time has risen.

    Commits come by a timer, so that load does not raise it. If 8 ms and 0.0011 of the time are usual, a longest of
    42 ms and 0.005 of the time are 36 ms. Infinity for other libraries, and without a history; NaN for no share.

    Args:
        usual: longest commit of each client by history (log).
        window: of the rows.
        memory: its history of shares is updated.
        figures: of slow-node.
    """
    is_longest, share = window.dialect == FRANZ_GO, window.rows.number("commit_latency_avg_ms")
    share = np.log(np.where(is_longest & (share > 0), share, np.nan))
    _, usual_share = _beside_usual("commit_share", share, window, memory, figures)
    usual, usual_share = (each[window.clients.of_row] for each in (usual, usual_share))
    return np.where(is_longest & ~np.isnan(usual), np.expm1(usual + share - usual_share), np.inf)


@once
def _fetch_ms(window: Window) -> Numbers:
    return _no_wait(window, "fetch_latency_avg_ms")


def _no_wait(window: Window, column: str) -> Numbers:
    """A latency of each row [ms]; NaN where its consumer was away from poll() long enough to explain it."""
    rows = window.rows
    latency_ms, client_of = rows.number(column), np.arange(len(window))
    is_away = waits_for_poll(rows.number, window.dialect == JAVA, client_of, np.fmax(latency_ms, 0))
    return np.where(is_away, np.nan, latency_ms)


def slow_commits(window: Window, memory: Memory, parts: Parts, figures: Figures) -> Threshold:
    """Test of the commits of each client, without the delay of its coordinator.

    Unknown if the rest is less than a third of the subtracted delay, which is not exact: 7 ms beside the 230 ms of a
    slow coordinator. If the client's fetches take no longer, the coordinator or the path to it is slow; if they are
    unknown, so is the result. A fetch that waits 370 ms for data shows a delay of 30 ms as 397 ms: it is longer by two
    fifths of what the commits are, and by more than its noise. If it usually differs by 10 ms, 380 ms prove nothing:
    only one of less than 375 ms is clearly without the delay. franz-go's fetches never show a delay (a share of 1 is
    their wait), so that its commits count alone.

    A mean follows the traffic, as fetches wait longer for less data. The longest of a consumer that sometimes waits to
    the end, for 500 ms, does not: it is asked where the usual one is that long. Of one broker alone it may be the path
    to the coordinator: where links do not send it (Java before 4.0), the mean has to be longer, too.
    """
    of_nodes, clients = figures.of["slow-node"], window.clients
    own = commits_of(window, memory, figures)
    commits = np.log1p(own.of_clients_ms)
    _, expected = _beside_usual("commit_latency_avg_ms", np.log1p(_commit_ms(window)), window, memory, of_nodes)
    taken = np.log1p(_fetch_ms(window))
    fetches, usual = _beside_usual("fetch_latency_avg_ms", taken, window, memory, of_nodes)
    of_rows, by_links = _longest_fetches(window)
    longest, usual_longest = _beside_usual("fetch_latency_max_ms", np.log1p(of_rows), window, memory, of_nodes)
    effect, more_ms = commits - expected, to_ms(commits) - to_ms(expected)
    may_be = (effect > np.log(figures["factor"])) & (more_ms > figures["least_ms"])
    effect[may_be & (more_ms < own.uncertain_ms)] = np.nan
    is_asked = may_be & (clients.count(window.dialect == FRANZ_GO) == 0)
    if is_asked.any():
        noise, noise_of_longest = (
            memory.history(name).noise(clients.codes) * of_five_minutes(window)
            for name in ("fetch_latency_avg_ms", "fetch_latency_max_ms")
        )
        by_client = fetches - usual, to_ms(fetches) - to_ms(usual), usual, _UNSURE * noise
        by_path = _fetches_by_path(window, parts, is_asked)
        is_longer, is_none = _by_mean(by_path, by_client, noise, more_ms, np.log(figures["fetches_factor"]))
        by_longest = _by_longest(longest, usual_longest, noise_of_longest, more_ms)
        shows = (to_ms(usual_longest) >= _LONGEST_WAIT_MS) & (to_ms(usual) < _LONGEST_WAIT_MS) & ~np.isnan(longest)
        is_longer = np.where(shows, by_longest[0] & (is_longer | (clients.count(by_links) > 0)), is_longer)
        is_none = np.where(shows, by_longest[1], is_none)
        rest = np.where(is_none, np.fmin(effect, 0.0), np.nan)
        effect = np.where(is_asked & ~is_longer, rest, effect)
    noise = memory.history("commit_latency_avg_ms").noise(clients.codes) * of_five_minutes(window)
    too = np.where(is_asked, ", and its fetches take longer", "").astype(object)
    return longer_than_usual(
        expected, effect, figures["factor"], figures["least_ms"],
        "{called} of {subject} take {observed} (usually {expected}){too}, while the brokers are healthy",
        "commit_latency_avg_ms", noise, called=own.called, too=too,
    )  # fmt: skip


def _by_mean(
    by_path: list[Numbers], by_client: tuple[Numbers, ...], noise: Numbers, more_ms: Numbers, factor: float
) -> tuple[Numbers, Numbers]:
    """True for clients whose fetches take longer on average, and for those whose fetches clearly do not.

    Args:
        by_path: see `_fetches_by_path`; NaN where no latencies by broker are sent.
        by_client: the same of all fetches of each client.
        noise: of these.
        more_ms: what commits take longer.
        factor: by which fetches are longer whatever commits are (log).
    """
    has_paths = ~np.isnan(by_path[0])
    longer, longer_ms, usual, unsure = (np.where(has_paths, *each) for each in zip(by_path, by_client, strict=True))
    is_longer = (longer_ms > _OF_COMMITS * more_ms) & (~has_paths | (longer > noise))
    return (longer > factor) | is_longer, longer + unsure < np.log1p(to_ms(usual) + more_ms) - usual


def _by_longest(longest: Numbers, usual: Numbers, noise: Numbers, more_ms: Numbers) -> tuple[Numbers, Numbers]:
    """The same by the longest fetches of each client (log), by what is usual for them and their noise."""
    is_longer = (to_ms(longest) - to_ms(usual) > _OF_COMMITS * more_ms) & (longest - usual > noise)
    return is_longer, longest + _UNSURE * noise < np.log1p(to_ms(usual) + more_ms)


def _longest_fetches(window: Window) -> tuple[Numbers, Numbers]:
    """Longest fetch of each row [ms], from most of its brokers where links tell it; and True for rows whose links do.

    NaN where its consumer was away from poll() long enough to explain it.
    """
    links = window.links
    is_fetch = (links.role == CONSUMER) & ~np.isnan(window.link_longest_ms)
    of_links = medians(np.where(is_fetch, links.row, -1), window.link_longest_ms, len(window), low=True)
    longest_ms = np.where(np.isnan(of_links), window.rows.number("fetch_latency_max_ms"), of_links)
    is_away = np.isnan(_fetch_ms(window))
    return np.where(is_away, np.nan, longest_ms), ~np.isnan(of_links)


def _beside_usual(
    name: str, taken: Numbers, window: Window, memory: Memory, figures: Figures
) -> tuple[Numbers, Numbers]:
    """Time that the rows of each client took (log), now and usually; NaN where unknown. Updates the named history."""
    clients, history = window.clients, memory.history(name)
    least_s = figures.history_s(window.length_s)
    usual = history.expected(clients.codes, least_s)
    is_young = window.begin_us - memory.instances["first_us"][window.instance] < figures["young_s"] * 1_000_000
    now = clients.median(taken)
    learned = clients.median(np.where(is_young, np.nan, taken)) if is_young.any() else now
    history.learn(clients.codes, learned, window.seconds_of(clients.codes), least_s)
    return now, usual


def _fetches_by_path(window: Window, parts: Parts, wanted: Numbers) -> list[Numbers]:
    """Fetches of each wanted client from most of its brokers: delay (log, and [ms]), usual latency, and uncertainty.

    NaN where unknown. What is usual includes the delays of the brokers, which a fetch that waits for data may not have.
    """
    paths = paths_of(window)
    place = np.searchsorted(window.clients.codes, paths.client)
    is_one = (parts.wait > 0) & wanted[place]
    usual = parts.expected + parts.node_part
    fetches = []
    unsure = _UNSURE * parts.noise + np.fmax(parts.node_part, 0)
    for each in (parts.value - usual, to_ms(parts.value) - to_ms(usual), usual, unsure):
        of_client = np.full(len(wanted), np.nan)
        of_series = paths.by_series.medians(np.where(is_one, each, np.nan), low=True)
        of_client[place[is_one]] = of_series[paths.by_series.of[is_one]]
        fetches.append(of_client)
    return fetches


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
    return medians(row[links], off, len(window)) < ALIKE

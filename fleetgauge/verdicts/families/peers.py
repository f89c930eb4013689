"""Comparisons without a history: clients with their peers, and brokers with the other brokers of the same clients.

A client that is slow from its first window on may also be far away, which is nothing to report. Three things tell the
two apart: no distance takes longer than `far_ms`; a client far from most brokers is near to those of its own region, if
there are any, while a slow client waits longer for all of them; and a region has several such clients. For a single
client far from every broker, latencies cannot decide: such a finding is a hint.
"""

from typing import Final, NamedTuple

import numpy as np

from fleetgauge.verdicts.arrow import Array, Numbers, as_numpy, pa, pc
from fleetgauge.verdicts.rules import Figures
from fleetgauge.verdicts.window import FRANZ_GO, Groups, Window, medians, numbered

_LEAST_CLIENTS: Final = 3
"""Least number of other client ids among peers: one or two may differ for reasons of their own."""

_TO_SIGMA: Final = 1.4826
"""Standard deviation per median absolute deviation, for normal values."""

_LEAST_SIGMA: Final = 0.1
_STEP_MS: Final = 1.0
"""Least variation of latencies: `_LEAST_SIGMA` (log), and the millisecond to which librdkafka rounds."""

_OF_ALL: Final = 0.5
"""Least delay of a slow client at each of its brokers, as a share of its delay at most of them."""

_ALIKE: Final = float(np.log(1.3))
"""Latencies this near to each other (log) are alike."""
_OF_A_REGION: Final = 2
"""Least number of other clients that wait as long for them to be a region."""


class BesideNodes(NamedTuple):
    """Brokers compared with others; arrays by node, but `is_slow` by path.

    Attributes:
        expected: latency of the same clients' requests to the others (log); 0 where the broker is not slow for most of
            them, NaN where that is not known.
        effect: excess over `expected` (log); 0 where the broker is not slow for most clients.
        slow, clients: number of clients for which it is slow, and of all.
        is_slow: True for slow paths.
    """

    expected: Numbers
    effect: Numbers
    slow: Numbers
    clients: Numbers
    is_slow: Numbers


def beside_other_nodes(
    value: Numbers, by_series: Groups, by_node: Groups, is_used: Numbers, figures: Figures
) -> BesideNodes:
    """Compares each broker with the other brokers of the same clients.

    Args:
        value: log of the latency of each path.
        by_series: the paths by their clients.
        by_node: the paths by their nodes.
        is_used: True for paths whose latencies do not depend on waits for data.
        figures: of slow-node.
    """
    series, at, count = by_series.of, by_node.of, len(by_node)
    several = np.bincount(series[is_used], minlength=len(by_series))
    own = np.where(is_used & (several[series] > 1), value, np.nan)
    others = by_series.medians(own, low=True)[series]
    is_slow = (own - others > np.log(figures["factor"])) & (np.expm1(own) - np.expm1(others) > figures["far_ms"])
    clients = np.bincount(at[~np.isnan(own)], minlength=count)
    slow = np.bincount(at[is_slow], minlength=count)
    is_judged = clients >= np.maximum(figures["least_clients"], 1)
    most = is_judged & (slow >= figures["share"] * clients)
    expected, effect = np.where(is_judged, 0.0, np.nan), np.zeros(count)
    if most.any():  # medians of large groups take long
        own = np.where(most[at], own, np.nan)
        expected[most] = by_node.medians(np.where(np.isnan(own), np.nan, others))[most]
        effect[most] = by_node.medians(own)[most] - expected[most]
    return BesideNodes(expected, effect, slow, clients, is_slow)


class BesidePeers(NamedTuple):
    """Clients compared with their peers; arrays by series (a client id, role and library).

    Attributes:
        expected: latency of its peers at the same brokers (log); NaN where it has too few peers.
        effect: excess over `expected` (log); 0 where it is not an outlier, or as far away as others are.
        instances: number of its peers' instances.
        may_be_far: True where distance may be the reason.
    """

    expected: Numbers
    effect: Numbers
    instances: Numbers
    may_be_far: Numbers


def beside_peers(
    window: Window, path_of: Numbers, series: Numbers, at: Numbers, value: Numbers, figures: Figures
) -> BesidePeers:
    """Compares each client with others of its prefix, or else its principal, and of its role, library and brokers.

    All are screened by their mean over brokers; only candidates are compared broker by broker.

    Args:
        window: of the latencies.
        path_of: path of each of its links.
        series: client of each path.
        at: node of each path.
        value: log of the latency of each path.
        figures: of slow-client.
    """
    count = int(series.max(initial=-1)) + 1
    result = BesidePeers(np.full(count, np.nan), np.zeros(count), np.zeros(count, np.int64), np.zeros(count, np.bool_))
    known = ~np.isnan(value)
    if not known.any():
        return result
    links = window.links
    row_of, role_of = np.zeros(count, np.int64), np.zeros(count, np.int64)
    series_of = series[path_of]
    row_of[series_of], role_of[series_of] = links.row, links.role
    # Instances of a client id and role have one principal and library.
    kind = (window.cluster[row_of].astype(np.int64) * 2 + role_of) * 4 + window.dialect[row_of] + 1
    of_row = np.full(2 * len(window), -1)
    of_row[links.row * 2 + links.role] = series_of
    size = np.bincount(of_row[of_row >= 0], minlength=count)
    series, at, value = series[known], at[known], value[known]
    groups = _groups(window, row_of, kind)
    chosen = np.full(count, -1)
    for number, group in reversed(list(enumerate(groups))):  # a client's prefix before its principal
        ids = np.bincount(group, minlength=int(group.max()) + 1)[group]
        peers = np.bincount(group, size, int(group.max()) + 1)[group] - size
        enough = (ids > _LEAST_CLIENTS) & (peers >= figures["least_peers"])
        chosen[enough] = number
        result.instances[enough] = peers[enough]
    is_candidate = _screened(series, at, value, kind, groups, chosen, figures)
    for number, group in enumerate(groups):
        wanted = is_candidate & (chosen == number)
        if wanted.any():
            _compare(series, at, value, group, wanted, figures, result)
    outliers = np.flatnonzero(~np.isnan(result.expected) & (result.effect > 0))
    # The longest requests of franz-go are no measure of the means of others.
    measure = kind // 4 * 2 + (kind % 4 == FRANZ_GO + 1)
    is_region = _are_alike(series, value, measure, outliers, count) & result.may_be_far[outliers]
    result.effect[outliers[is_region]] = 0.0
    return result


def without_number(client_ids: Array) -> Array:
    """The prefix of each client id: the id without the number at its end.

    >>> without_number(pa.array(["orders-12", "orders"])).to_pylist()
    ['orders', 'orders']
    """
    return pc.utf8_rtrim(pc.utf8_rtrim(client_ids, "0123456789"), "-_.:#")


def _groups(window: Window, row_of: Numbers, kind: Numbers) -> tuple[Numbers, Numbers]:
    """Number of each series' prefix and kind, and number of its principal and kind."""
    groups = []
    at = pa.array(row_of)
    ids, principals = (window.rows.column(name).take(at).fill_null("") for name in ("client_id", "principal"))
    for texts in (without_number(ids), principals):
        codes = as_numpy(texts.dictionary_encode().indices).astype(np.int64)
        groups.append(numbered(codes * (int(kind.max(initial=0)) + 1) + kind)[1])
    return groups[0], groups[1]


def _screened(
    series: Numbers, at: Numbers, value: Numbers, kind: Numbers, groups: tuple[Numbers, ...], chosen: Numbers,
    figures: Figures,
) -> Numbers:  # fmt: skip
    """Series that wait longer than most of their peers, and longer than others of their kind for each broker."""
    count = len(kind)
    place = numbered(kind[series] * (int(at.max()) + 1) + at)[1]
    paths = np.bincount(place)
    above = value - (np.bincount(place, value) / paths)[place]
    many = np.bincount(series, minlength=count)
    mean = np.bincount(series, above, count) / np.maximum(many, 1)
    least = np.full(count, np.inf)
    np.minimum.at(least, series, above)
    usual = np.full(count, np.nan)
    for number, group in enumerate(groups):
        is_chosen = chosen == number
        if is_chosen.any():
            middle = medians(group, np.where(many > 0, mean, np.nan), int(group.max()) + 1, low=True)
            usual[is_chosen] = middle[group[is_chosen]]
    is_screened: Numbers = (chosen >= 0) & (many > 0) & (mean - usual > np.log(figures["factor"]) / 2) & (least > 0)
    return is_screened


def _compare(
    series: Numbers, at: Numbers, value: Numbers, group: Numbers, wanted: Numbers, figures: Figures, result: BesidePeers
) -> None:  # fmt: skip
    """Compares some series with their groups, broker by broker."""
    count = len(group)
    judged = max(int(np.count_nonzero(result.instances)), 2)
    has = np.isin(group, group[wanted])[series]
    series, at, value = series[has], at[has], value[has]
    place = numbered(group[series] * (int(at.max()) + 1) + at)[1]
    places = int(place.max()) + 1
    usual = medians(place, value, places, low=True)[place]
    spread = _TO_SIGMA * medians(place, np.abs(value - usual), places)[place]
    sigma = np.maximum(np.maximum(spread, _LEAST_SIGMA), np.log1p(np.expm1(usual) + _STEP_MS) - usual)
    few = np.bincount(place)[place] <= _LEAST_CLIENTS
    usual = np.where(few | ~wanted[series], np.nan, usual)
    more_ms = np.expm1(value) - np.expm1(usual)
    most_ms, certain = (medians(series, each, count, low=True) for each in (more_ms, (value - usual) / sigma))
    least_ms = -_largest(series, -more_ms, count)
    # The farthest of n normal values is about sqrt(2 ln n) deviations off.
    is_outlier = (certain > figures["deviations"] + float(np.sqrt(2 * np.log(float(judged))))) & (
        least_ms >= _OF_ALL * most_ms
    )
    effect = medians(series, value - usual, count, low=True)
    result.expected[wanted] = medians(series, usual, count)[wanted]
    result.effect[wanted] = np.where(is_outlier, effect, 0.0)[wanted]
    result.may_be_far[wanted] = ~(least_ms >= figures["far_ms"])[wanted]


def _largest(groups: Numbers, values: Numbers, count: int) -> Numbers:
    largest = np.full(count, -np.inf)
    has = ~np.isnan(values)
    np.maximum.at(largest, groups[has], values[has])
    return largest


def _are_alike(series: Numbers, value: Numbers, kind: Numbers, outliers: Numbers, count: int) -> Numbers:
    """True for the outliers that wait about as long as two or more others of their kind."""
    if not len(outliers):
        return np.zeros(0, np.bool_)
    level = medians(series, value, count, low=True)
    key = kind * 1_000.0 + np.where(np.isnan(level), 900.0, level)
    ordered, own = np.sort(key), key[outliers]
    many = np.searchsorted(ordered, own + _ALIKE, side="right") - np.searchsorted(ordered, own - _ALIKE)
    return many > _OF_A_REGION

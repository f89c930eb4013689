"""The life of clients: connections, crashes, silence, and clocks."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fleetgauge.verdicts.arrow import Numbers, pa
from fleetgauge.verdicts.declare import TOO_YOUNG, Finding, Threshold, Verdict, of_clients, of_subjects
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.patterns import matches
from fleetgauge.verdicts.rules import Figures
from fleetgauge.verdicts.window import DIALECTS, Subjects, Window

_US: Final = 1_000_000
_MINUTE_S: Final = 60
_SHORT_US: Final = 600 * _US
_BITS_OF_S: Final = 33
"""Enough for the seconds of two centuries."""
_SPREAD: Final = 1.25
"""Largest range of a scheduled job's first pushes around its period [push intervals]."""
_FIRST_PUSH: Final = 12**-0.5
"""Standard deviation of the time from the start of a client to its first push: half an interval to one and a half."""
_CERTAIN: Final = 3.0
"""Least difference of a period from each period of schedulers for it to be another one [standard errors]."""
_PERIODS_US: Final = np.array([60 * minutes * _US for minutes in range(1, 61) if 60 % minutes == 0])
_LEAST_LIVES: Final = 3
_LONGEST_INTERVALS: Final = 1.75
"""Longest time between two pushes without a missing one [push intervals]."""
_LONGEST_WAIT: Final = 1.5
"""Longest time to the first push after a client got another interval [push intervals]."""


def _connection_churn(window: Window, memory: Memory, figures: Figures) -> Finding:
    """Instances older than ten minutes: one that starts opens a connection to each broker."""
    rows = window.rows
    is_old = window.begin_us - memory.instances["first_us"][window.instance] > figures["young_s"] * _US
    finding = of_clients(
        window,
        [
            Threshold(
                metric="connections_created",
                unit="per minute",
                observed=rows.number("connections_created") / window.seconds * _MINUTE_S,
                bound=figures["per_minute"],
                says="an instance of {subject} opens new connections at {observed} (limit {bound})",
            )
        ],
        judged=is_old,
    )
    return replace(finding, left_out={TOO_YOUNG: ~is_old})


def _crash_loop(window: Window, memory: Memory, figures: Figures) -> Finding:
    """Short lives one after the other: the longest chain of each client id that still goes on."""
    known = memory.instances
    first, last, interval_us = known["first_us"], known["last_us"], known["interval_s"] * _US
    is_short = (last > 0) & (last - first < figures["life_s"] * _US)
    now_us = _now_us(window, memory)[known["cluster"]]
    is_ended = now_us - last > _LONGEST_INTERVALS * interval_us
    is_recent = now_us - last < figures["within_s"] * _US
    short = np.flatnonzero(is_short & is_ended & is_recent & ~_has_terminated(window, memory))
    clients, counts = np.unique(known["client"][short], return_counts=True)
    lengths = dict.fromkeys(clients.tolist(), 0)
    for client in clients[counts >= figures["lives"]].tolist():
        lives = short[known["client"][short] == client]
        gap_us = figures["gap_s"] * _US + 2 * interval_us[lives].max()  # when a push is seen of either
        known_after_us = _LONGEST_INTERVALS * interval_us[lives].max()  # the end of a life
        # The next life counts once it has ended, and may be as long as a short one.
        goes_on_us = window.end_us - gap_us - known_after_us - max(window.length_s, figures["life_s"]) * _US
        chain = _chain(first[lives], last[lives], gap_us, goes_on_us)
        # For Java's producers the absence of a terminating push proves nothing: a crash loop shows in irregular starts,
        # or in a first life that follows a long one, which a job's does not.
        ends_silently = not known["says_when_it_ends"][lives].any()
        by_clock = ends_silently and _is_by_clock(chain, interval_us[lives].max())
        by_clock = by_clock and not _follows_a_long_life(client, chain, gap_us, memory)
        lengths[client] = 0 if by_clock else len(chain)
    codes = window.clients.codes
    if not np.isin(clients, codes).all():
        codes = np.union1d(codes, clients)
    observed = np.zeros(len(codes))
    observed[np.searchsorted(codes, list(lengths))] = list(lengths.values())
    instances = {code: short[known["client"][short] == code] for code in clients[counts >= figures["lives"]].tolist()}
    for code, length in lengths.items():
        if length >= figures["lives"]:
            known["in_loop"][instances[code]] = 1
    return of_subjects(
        Subjects("client", codes, np.searchsorted(codes, window.client)),
        [
            Threshold(
                metric="instances",
                unit="times",
                observed=observed,
                bound=figures["lives"] - 0.5,
                expected=np.zeros(len(codes)),
                says="{subject} crashed and restarted {observed} in a row, each time within ten minutes",
            )
        ],
        named=lambda place: instances.get(int(codes[place]), short[:0]),
    )


def _chain(first: Numbers, last: Numbers, gap_us: float, goes_on_us: float) -> list[float]:
    """Beginnings of the longest chain of lives up to now; empty if its last life ended long ago.

    Several instances of a client id may crash at the same time: each life follows one that no other follows.
    """
    order = np.argsort(first, kind="stable")
    chains: list[tuple[float, list[float]]] = []  # of each: the end of its last life, and the beginnings of all
    for begin, until in zip(first[order].tolist(), last[order].tolist(), strict=True):
        before = [each for each in chains if 0 < begin - each[0] <= gap_us]
        begins = [begin]
        if before:
            chains.remove(longest := max(before, key=lambda each: len(each[1])))
            begins = [*longest[1], begin]
        chains.append((until, begins))
    return max((begins for end, begins in chains if end >= goes_on_us), key=len, default=[])


def _is_by_clock(begins: list[float], interval_us: float) -> bool:
    """True if beginnings, but for one of them, are even and a whole part of an hour apart: a scheduler starts a job.

    Only first pushes are seen, and Java's come half a push interval to one and a half after the start. With a push
    each 60 s, those of a job that runs every five minutes are up to 60 s off; lives of two to five minutes, which end
    by chance, are 80 s off after about eight of them. But their period is known before: seven beginnings give it within
    3.3 s, and 221 s is not a scheduler's. Of jobs of 3 to 12 minutes 1 % are taken for a loop; of such loops 13 % for
    a job after seven lives.
    """
    even = np.array(begins)
    count = len(even)
    for _ in range(2):
        if count < _LEAST_LIVES:
            return True
        period_us, first_us = np.polyfit(np.arange(count), even, 1)
        off = even - (first_us + period_us * np.arange(count))
        if float(np.ptp(off)) <= _SPREAD * interval_us:
            error_us = _FIRST_PUSH * interval_us * np.sqrt(12 / (count**3 - count))
            return bool(np.abs(period_us - _PERIODS_US).min() <= _CERTAIN * error_us)
        worst = int(np.argmax(np.abs(off)))  # a first push that was lost is a whole interval late
        even[worst] -= off[worst]
    return False


def _follows_a_long_life(client: int, begins: list[float], gap_us: float, memory: Memory) -> bool:
    """True if a chain began when an instance with a longer life ended: that was its first crash."""
    known = memory.instances
    is_own = (known["client"] == client) & (known["last_us"] - known["first_us"] >= _SHORT_US)
    since_us = begins[0] - known["last_us"][is_own] if begins else np.zeros(0)
    return bool(((since_us > 0) & (since_us <= gap_us)).any())


def _now_us(window: Window, memory: Memory) -> Numbers:
    """Time of the latest push of each cluster, not the window's end [us]: a run may have only a part of its last one.

    0 for a cluster without a push.
    """
    latest_us = np.zeros(len(memory.registry.clusters) + 1, np.int64)  # the last one for instances of unknown clusters
    np.maximum.at(latest_us, window.cluster, window.rows.micros("seen_at"))
    return np.minimum(latest_us, window.end_us)


def _has_terminated(window: Window, memory: Memory) -> Numbers:
    at = memory.instances["terminated_us"]
    return (at > 0) & (at <= window.end_us)


def _silent(window: Window, memory: Memory, figures: Figures) -> Finding:
    _drop_those_that_waited(window, memory, figures)
    known = memory.instances
    cluster = known["cluster"]
    quiet_s = (_now_us(window, memory)[cluster] - known["last_us"]) / _US
    is_expected = (known["says_when_it_ends"] > 0) | _stays(memory, figures.patterns("stays"))
    judged = (known["last_us"] > 0) & is_expected
    judged &= (quiet_s < figures["kept_s"]) & ~_has_terminated(window, memory) & (known["in_loop"] == 0)
    # Where few of a cluster push, it is the receiver that is silent.
    clusters = len(memory.registry.clusters) + 1
    expected = np.bincount(cluster[judged & (quiet_s < figures["kept_s"] / 24)], minlength=clusters)
    pushed = np.bincount(window.cluster, minlength=clusters)
    judged &= ((pushed > 0) & (pushed >= figures["others_share"] * expected))[cluster]
    bound = figures["intervals"] * known["interval_s"] + figures["more_s"]
    suspects = np.flatnonzero(judged & (quiet_s > bound))
    judged[suspects] = ~_is_replaced(suspects, memory, figures.of["crash-loop"])
    return of_subjects(
        Subjects("instance", np.arange(len(quiet_s)), window.instance),
        [
            Threshold(
                metric="last_push",
                unit="s",
                observed=quiet_s,
                bound=bound,
                says="{client} last pushed {observed} ago (push interval {interval:,.0f} s), without a terminating "
                "push",
                more={"interval": known["interval_s"]},
            )
        ],
        judged=judged,
        named=lambda place: np.array([place]),
    )


def _drop_those_that_waited(window: Window, memory: Memory, figures: Figures) -> None:
    """Drops the silences of instances that only waited for a longer interval, as their next push shows.

    A client gets the new interval when a push is refused, one interval after its last push, and then waits for at most
    1.5 new ones (KIP-714, Client behavior). With 60 s before and 300 s after, a healthy client sends nothing for up to
    510 s, and a minute (`more_s`); by the old interval, it was silent after 240 s.
    """
    known, cases = memory.instances, memory.cases.get("silent", {})
    for code in [code for code in cases if known["last_us"][code] >= window.begin_us]:
        latest = cases[code].evidence[-1]
        before_s = (latest["expected"] - figures["more_s"]) / max(figures["intervals"], 1.0)
        longest_s = before_s + _LONGEST_WAIT * known["pushed_s"][code] + figures["more_s"]
        if known["pushed_s"][code] > before_s and latest["observed"] <= longest_s:
            del cases[code]


def _stays(memory: Memory, patterns: Sequence[str]) -> Numbers:
    """True for instances whose client ids run day and night, by the operator's patterns."""
    clients = memory.registry.clients
    names = pa.array([clients.parts(code)[1] for code in range(len(clients))] if patterns else [], pa.string())
    stays = np.zeros(len(clients), np.bool_)
    for pattern in patterns:
        stays |= matches(names, pattern)
    return stays[memory.instances["client"]]


def _is_replaced(suspects: Numbers, memory: Memory, figures: Figures) -> Numbers:
    """True for suspects that another instance of their client id followed at once: they were started again.

    At once is within `gap_s` of crash-loop plus two push intervals, since only pushes are seen. An instance with a
    short life is replaced by any later one: it crashed, and may do so again.
    """
    known = memory.instances
    others = np.flatnonzero(np.isin(known["client"], known["client"][suspects]))
    # The first of the same client id that came after the last push: searched for by client and second.
    key = np.sort(known["client"][others] << _BITS_OF_S | known["first_us"][others] // _US)
    last_s = known["last_us"][suspects] // _US
    at = np.searchsorted(key, known["client"][suspects] << _BITS_OF_S | last_s, side="right")
    next_one = np.append(key, -1)[at]
    is_there = next_one >> _BITS_OF_S == known["client"][suspects]
    gap_s = (next_one & (1 << _BITS_OF_S) - 1) - last_s
    is_short = known["last_us"][suspects] - known["first_us"][suspects] < _SHORT_US
    at_once = gap_s <= figures["gap_s"] + 2 * known["interval_s"][suspects]
    is_replaced: Numbers = is_there & (is_short | at_once)
    return is_replaced


def _clock_skew(window: Window, memory: Memory, figures: Figures) -> Finding:
    rows, instances = window.rows, window.by_instance
    bound = figures["ms"]
    return Finding(
        subjects=instances,
        unit_of=instances.of_row,
        rows=np.arange(len(window)),
        tests=[
            Threshold(
                metric="clock_skew_min_ms",
                unit="ms",
                observed=rows.number("clock_skew_min_ms"),
                bound=bound,
                expected=np.zeros(len(window)),
                says="the clock of this instance of {client} is {observed} behind the receiver's (limit {bound})",
            ),
            Threshold(
                metric="clock_skew_max_ms",
                unit="ms",
                observed=-rows.number("clock_skew_max_ms"),
                bound=bound,
                expected=np.zeros(len(window)),
                says="the clock of this instance of {client} is {observed} ahead of the receiver's (limit {bound})",
            ),
        ],
    )


VERDICTS: Final = (
    Verdict(
        id="crash-loop",
        find=_crash_loop,
        action="Read the last lines of the log of {subject} before it ends, and its exit codes.",
        needs=dict.fromkeys(DIALECTS, ()),
        roles=("producer", "consumer", "share-consumer", "admin", "streams"),
        explains=(
            "silent",
            "connection-churn",
            "rebalance-storm",
            "lagging",
            "stalled",
            "idle-consumer",
            "uneven-group",
        ),
    ),
    Verdict(
        id="connection-churn",
        find=_connection_churn,
        action="Have {subject} keep one client open instead of one per request, and check for refused connections.",
        needs=dict.fromkeys(DIALECTS, ("connections_created",)),
    ),
    Verdict(
        id="silent",
        kind="instance",
        side="unknown",
        find=_silent,
        action="Check whether the process of {client} still runs and reaches its brokers.",
        needs=dict.fromkeys(DIALECTS, ()),
        roles=("producer", "consumer", "share-consumer", "streams"),
        explains=("slow-processing", "rebalance-storm", "stalled", "uneven-group", "lagging"),
    ),
    Verdict(
        id="clock-skew",
        kind="instance",
        find=_clock_skew,
        action="Synchronise the clock of the machine of {client} by NTP.",
        needs=dict.fromkeys(DIALECTS, ("clock_skew_min_ms",)),
        roles=("producer", "consumer", "share-consumer", "admin", "streams"),
    ),
)

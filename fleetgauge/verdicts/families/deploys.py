"""Clients that are worse after a deploy than before.

A deploy is seen by its instances: all that push now came after others of the same client id ended. What each instance
measured is kept with it as a running mean of about an hour, less what its brokers or its cluster had in common at that
time, so that those before a deploy can be compared with those after, however long it took.
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

import numpy as np

from fleetgauge.verdicts.arrow import Numbers, as_numpy, pa
from fleetgauge.verdicts.declare import OWN_HISTORY, Finding, Threshold, Verdict, amount, of_subjects
from fleetgauge.verdicts.families.latency import parts_of
from fleetgauge.verdicts.families.peers import without_number
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.rules import Figures
from fleetgauge.verdicts.window import Window, medians, numbered

_US: Final = 1_000_000
_REMEMBERED_S: Final = 3600
_LEAST_PEERS: Final = 8
"""Instances from which on it is known what the throughputs of a cluster have in common."""
_ENDED_INTERVALS: Final = 1.75
"""Push intervals without a push after which an instance has ended."""


class _Deploys(NamedTuple):
    """Of each client of a window: what was before its last deploy; NaN where nothing is comparable.

    Attributes:
        began_us: when the first of its present instances came.
        version: of the instances before, in the registry.
        before: by measure: `latency` (log, above what is usual), `waited` (log, as measured), `failed` (share of
            records that failed or were sent again), `throughput` (records per second).
    """

    began_us: Numbers
    version: Numbers
    before: dict[str, Numbers]


class _Latency(NamedTuple):
    """Of each row the means over its links, in logs of the latency [ms] and 1.

    Attributes:
        above: beyond what is usual, where a fetch that waits for data is usual.
        usual: by the history of each link.
        own: as measured, without what its brokers have in common.
    """

    above: Numbers
    usual: Numbers
    own: Numbers


def _deploy_regression(window: Window, memory: Memory, figures: Figures) -> Finding:
    clients = window.clients
    latency = _latency(window, memory, figures)
    failed, sent = _failed(window)
    rate = _throughput(window, memory)
    deploys = _deploys(window, memory, figures)
    _remember(window, memory, {"latency": latency.above, "waited": latency.own, "failed": failed, "throughput": rate})
    factor, before = figures["factor"], deploys.before
    # Only of clients that have something to be compared with.
    of_row = np.where(np.isnan(before["latency"])[clients.of_row], -1, clients.of_row)
    expected = medians(of_row, latency.usual, len(clients))
    before_ms = np.expm1(expected + before["latency"])
    failing = clients.sum(failed * sent) / np.maximum(clients.sum(np.where(np.isnan(failed), np.nan, sent)), 1)
    age_s = (window.begin_us - deploys.began_us) / _US
    per_s, sends = before["throughput"], clients.sum(np.expm1(rate))
    least_per_s = np.where(per_s >= figures["least_per_s"], per_s / factor, np.nan)
    if (sends < least_per_s).any():
        least_per_s[_is_shared(window, sends, per_s, age_s < figures["within_s"], factor)] = np.nan
    tests = [
        Threshold(
            metric="request_latency_avg_ms", unit="ms", expected=before_ms,
            observed=np.expm1(expected + medians(of_row, latency.above, len(clients))),
            bound=np.maximum(factor * before_ms, before_ms + figures["least_ms"]),
            says="{subject} waits {waits} for its brokers since it was deployed at {at}{change}, {waited} before",
        ),
        Threshold(
            metric="record_errors", unit="ratio", observed=failing, expected=before["failed"],
            bound=np.maximum(factor * before["failed"], before["failed"] + figures["least_failed"]),
            says="{observed} of the records of {subject} fail or are sent again since it was deployed at {at}{change}, "
            "{expected} before",
        ),
        Threshold(
            metric="records_sent", unit="records per s", is_upper=False, observed=sends, bound=least_per_s,
            expected=per_s,
            says="{subject} sends {observed} since it was deployed at {at}{change}, {expected} before, both at the "
            "usual load of its cluster",
        ),
    ]  # fmt: skip
    judged = (age_s >= figures["young_s"]) & (age_s < figures["within_s"])
    bad = judged & np.logical_or.reduce([test.is_known & test.is_bad for test in tests])
    more = _words(window, memory, deploys, bad, medians(of_row, latency.own, len(clients)))
    return of_subjects(
        clients,
        [replace(test, more=more) for test in tests],
        judged=judged,
        certainty=OWN_HISTORY,
        since_us=deploys.began_us,
    )


def _latency(window: Window, memory: Memory, figures: Figures) -> _Latency:
    """Latencies without what the brokers of each link had in common.

    That is taken off what a link has above its own history, and no more: a delay of a broker does not reach clients
    that wait for less (`acks=1`), and is within the time that an empty fetch waits anyway.
    """
    parts = parts_of(window, memory, figures)
    row, path, link_value = parts.row, parts.path_of, parts.link_value
    known = ~np.isnan(parts.expected[path])
    if not known.all():
        row, path, link_value = row[known], path[known], link_value[known]
    expected, wait = parts.expected[path], parts.wait[path]
    own = link_value - np.minimum(parts.node_part[path], np.maximum(link_value - expected, 0))
    usual = np.maximum(expected, wait)
    count = np.bincount(row, minlength=len(window))

    def of_rows(values: Numbers) -> Numbers:
        total = np.bincount(row, values, minlength=len(window))
        found: Numbers = np.divide(total, count, out=np.full(len(window), np.nan), where=count > 0)
        return found

    return _Latency(of_rows(np.maximum(own, wait) - usual), of_rows(usual), of_rows(own))


def _failed(window: Window) -> tuple[Numbers, Numbers]:
    """Of each row the share of records that failed or were sent again, and how many were sent."""
    rows = window.rows
    sent = np.nan_to_num(rows.number("records_sent"))
    bad = np.nan_to_num(rows.number("record_errors")) + np.nan_to_num(rows.number("record_retries"))
    is_known = ~np.isnan(rows.number("record_errors")) & (sent > 0)
    return np.where(is_known, bad / np.maximum(sent, 1), np.nan), sent


def _throughput(window: Window, memory: Memory) -> Numbers:
    """Of each row the log of 1 and the records per second that it sends, by the load that those of its cluster share.

    What they share is the median factor against what each instance remembers: load by the time of day. The rate itself
    is divided by it: in a log of 1 and the rate, a factor is less the fewer records an instance sends. Consumers are
    not judged by it: how much they read is up to those that write.
    """
    known = memory.instances
    rate = window.rows.number("records_sent") / window.seconds
    usual = np.where(known["windows"][window.instance] > 0, np.expm1(known["throughput"][window.instance]), np.nan)
    least = 1 / window.length_s  # one record a window
    change = np.log(np.maximum(rate, least)) - np.log(np.maximum(usual, least))
    change[np.maximum(rate, usual) <= least] = np.nan  # of those that send nothing
    count = int(window.cluster.max(initial=-1)) + 1
    common = medians(window.cluster, change, count)
    common[np.bincount(window.cluster[~np.isnan(change)], minlength=count) < _LEAST_PEERS] = 0.0
    found: Numbers = np.log1p(rate / np.exp(np.nan_to_num(common))[window.cluster])
    return found


def _is_shared(window: Window, now: Numbers, before: Numbers, is_new: Numbers, factor: float) -> Numbers:
    """True for clients that send less while all with their prefix together do not: new ones share the work.

    Args:
        window: of the clients.
        now: what each sends [records per s].
        before: what those that were deployed sent before; NaN of others, which sent as now, or nothing if they are new.
        is_new: of each client, if it came lately.
        factor: by which less is sent.
    """
    clients = window.clients
    row_of = np.zeros(len(clients), np.int64)
    row_of[clients.of_row] = np.arange(len(window))
    names = without_number(window.rows.column("client_id").take(pa.array(row_of)).fill_null("")).dictionary_encode()
    codes = as_numpy(names.indices).astype(np.int64)
    _, prefix = numbered(codes * (int(window.cluster.max()) + 1) + window.cluster[row_of])
    sent_before = np.where(np.isnan(before), np.where(is_new, 0.0, now), before)
    all_now, all_before = (np.bincount(prefix, np.nan_to_num(each)) for each in (now, sent_before))
    return (factor * all_now >= all_before)[prefix]


def _deploys(window: Window, memory: Memory, figures: Figures) -> _Deploys:
    """Instances that ended while those of now came, or shortly before, and were seen long enough to compare with."""
    clients, known = window.clients, memory.instances
    began_us = -clients.max(-known["first_us"][window.instance].astype(np.float64))
    place = np.minimum(np.searchsorted(clients.codes, known["client"]), len(clients) - 1)
    gap_us = (figures["gap_s"] + 2 * known["interval_s"]) * _US
    last = known["last_us"]
    is_before = (clients.codes[place] == known["client"]) & (known["windows"] >= figures["history_windows"])
    is_before &= (known["first_us"] < began_us[place]) & (last >= began_us[place] - gap_us)
    is_before[window.instance] = False
    before = np.flatnonzero(is_before & (last < window.begin_us - _ENDED_INTERVALS * known["interval_s"] * _US))
    at, count = place[before], len(clients)
    version = np.full(count, -1)
    version[at] = known["version"][before]
    rates = known["throughput"][before]
    is_known = ~np.isnan(rates)
    sums = np.bincount(at[is_known], np.expm1(rates[is_known]), count).astype(np.float64)
    sums[np.bincount(at[is_known], minlength=count) == 0] = np.nan
    of_measure = {name: medians(at, known[name][before], count) for name in ("latency", "waited", "failed")}
    return _Deploys(began_us, version, of_measure | {"throughput": sums})


def _remember(window: Window, memory: Memory, values: dict[str, Numbers]) -> None:
    """Takes a window into what each instance remembers."""
    known, code = memory.instances, window.instance
    windows = known["windows"][code]
    weight = np.maximum(1 / (windows + 1), min(window.length_s / _REMEMBERED_S, 1.0))
    for name, value in values.items():
        before = np.where(windows > 0, known[name][code], np.nan)
        mean = np.where(np.isnan(before), value, before + weight * (value - before))
        known[name][code] = np.where(np.isnan(value), before, mean)
    known["windows"][code] += 1


def _words(window: Window, memory: Memory, deploys: _Deploys, bad: Numbers, own: Numbers) -> dict[str, Numbers]:
    """Of those that are worse: when they were deployed, from which version to which, and how long they wait."""
    words = {name: np.full(len(bad), "", object) for name in ("at", "change", "waits", "waited")}
    versions, waited = memory.registry.versions, deploys.before["waited"]
    of_client = np.full(len(bad), -1)
    of_client[window.clients.of_row] = window.version
    for place in np.flatnonzero(bad).tolist():
        words["at"][place] = f"{datetime.fromtimestamp(deploys.began_us[place] / _US, UTC):%H:%M}"
        for name, each in (("waits", own), ("waited", waited)):
            words[name][place] = amount(float(np.expm1(each[place])), "ms")
        if of_client[place] != deploys.version[place]:
            old, new = (versions.parts(int(each[place]))[2] for each in (deploys.version, of_client))
            words["change"][place] = f" (version {new}, {old} before)"
    return words


VERDICTS: Final = (
    Verdict(
        id="deploy-regression",
        find=_deploy_regression,
        action="Take the last deploy of {subject} back, or find what it changed: settings, version, code.",
        needs={
            "java": ("request_latency_avg_ms", "record_errors", "records_sent"),
            "librdkafka": ("request_latency_avg_ms",),
            "franz-go": ("request_latency_avg_ms",),
        },
        history="deploy-regression",
        explains=("slow-client", "slow-path", "buffer-full", "record-errors", "lagging"),
    ),
)

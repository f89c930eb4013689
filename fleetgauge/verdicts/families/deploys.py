"""Clients that are worse after a deploy than before.

A deploy shows in the instances: all that push now came after others of the same client id ended. Each instance has
running means of its measures over about an hour, less what its brokers or its cluster had in common at that time, so
that the instances before and after a deploy can be compared, however long it took.

A regression shows within 15 minutes of the deploy: one that begins later has another reason. A surge that ended shortly
before leaves too high a mean of an hour, so throughput is also compared with the last 15 minutes. A consumer that reads
less may have less to read; one whose lag grows meanwhile has more than it can read.
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

import numpy as np

from fleetgauge.verdicts.arrow import Numbers, as_numpy, pa
from fleetgauge.verdicts.declare import OWN_HISTORY, Finding, Threshold, Verdict, amount, of_subjects
from fleetgauge.verdicts.families.commits import commits_of
from fleetgauge.verdicts.families.lag import lag_trend
from fleetgauge.verdicts.families.parts import parts_of
from fleetgauge.verdicts.families.peers import without_number
from fleetgauge.verdicts.memory import Memory, between_pushes
from fleetgauge.verdicts.paths import paths_of
from fleetgauge.verdicts.rules import Figures
from fleetgauge.verdicts.window import Groups, Window, medians, numbered

_US: Final = 1_000_000
_REMEMBERED_S: Final = 3600
_LEAST_PEERS: Final = 8
"""Least number of instances that show what the throughputs of a cluster have in common."""
_RECENT_S: Final = 900
_SHOWS_WITHIN_S: Final = 900
"""Time after a deploy in which a regression shows, at least up to the end of the first judged window [s]."""
_ENDED_INTERVALS: Final = 1.75
"""Push intervals without a push after which an instance has ended."""


class _Deploys(NamedTuple):
    """State of each client of a window before its last deploy; NaN where nothing is comparable.

    Attributes:
        first_us: first push of its present instances [us].
        began_us: last push of the instances before that was earlier [us]: no present one started before, and a first
            push may come 1.5 push intervals after the start.
        done_us: last push of the instances before, if that was later [us].
        version: of the instances before, in the registry.
        before: by measure: `latency` (log, above what is usual), `waited` (log, as measured), `failed` (share of
            records that failed or were sent again), `commits` (log), `throughput` and `read` (records per second; the
            lower of the mean of an hour and of the last quarter of an hour).
    """

    first_us: Numbers
    began_us: Numbers
    done_us: Numbers
    version: Numbers
    before: dict[str, Numbers]


class _Latency(NamedTuple):
    """Means over the links of each row, as log(1 + latency [ms]).

    Attributes:
        above: excess over the usual latency, which includes the wait of a fetch for data: the lower median, since a
            deploy does not slow a single path.
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
    rate, read = _throughput(window, memory), np.log1p(_read_per_s(window))
    commits = commits_of(window, memory, figures)
    deploys = _deploys(window, memory, figures)
    _remember(
        window, memory,
        {
            "latency": latency.above, "waited": latency.own, "failed": failed, "commits": np.log1p(commits.own_ms),
            "throughput": rate,
            "read": read,
        },
    )  # fmt: skip
    factor, before = figures["factor"], deploys.before
    # Only clients that have something to be compared with.
    by_client = Groups(np.where(np.isnan(before["latency"])[clients.of_row], -1, clients.of_row), len(clients))
    expected = by_client.medians(latency.usual)
    before_ms = np.expm1(expected + before["latency"])
    failing = clients.sum(failed * sent) / np.maximum(clients.sum(np.where(np.isnan(failed), np.nan, sent)), 1)
    age_s = (window.begin_us - deploys.first_us) / _US
    per_s, sends = before["throughput"], _of_clients(window, memory, "throughput", rate)
    least_per_s = np.where(per_s >= figures["least_per_s"], per_s / factor, np.nan)
    if (sends < least_per_s).any():
        least_per_s[_is_shared(window, sends, per_s, age_s < figures["within_s"], factor)] = np.nan
    commits_ms = np.expm1(before["commits"])
    reads = _of_clients(window, memory, "read", read)
    reads[~_has_more_to_read(window, memory, figures)] = np.nan
    tests = [
        Threshold(
            metric="request_latency_avg_ms", unit="ms", expected=before_ms,
            observed=np.expm1(expected + by_client.medians(latency.above)),
            bound=np.maximum(factor * before_ms, before_ms + figures["least_ms"]),
            says="requests of {subject} take {waits} (before {waited}) since its deploy at {at}{change}",
        ),
        Threshold(
            metric="record_errors", unit="ratio", observed=failing, expected=before["failed"],
            bound=np.maximum(factor * before["failed"], before["failed"] + figures["least_failed"]),
            says="{observed} of the records of {subject} fail or are retried (before {expected}) since its deploy at "
            "{at}{change}",
        ),
        Threshold(
            metric="records_sent", unit="records per s", is_upper=False, observed=sends, bound=least_per_s,
            expected=per_s,
            says="{subject} sends {observed} (before {expected}, both at the usual load of its cluster) since its "
            "deploy at {at}{change}",
        ),
        Threshold(
            metric="commit_latency_avg_ms", unit="ms", expected=commits_ms, observed=commits.of_clients_ms,
            bound=np.maximum(factor * commits_ms, commits_ms + figures.of["slow-client"]["least_ms"]),
            says="{called} of {subject} take {observed} (before {expected}) since its deploy at {at}{change}",
        ),
        Threshold(
            metric="records_consumed", unit="records per s", is_upper=False, observed=reads, expected=before["read"],
            bound=np.where(before["read"] >= figures["least_per_s"], before["read"] / factor, np.nan),
            says="{subject} reads {observed} (before {expected}) since its deploy at {at}{change}, while its lag grows",
        ),
    ]  # fmt: skip
    shows_us = deploys.done_us + max(_SHOWS_WITHIN_S, figures["young_s"] + window.length_s) * _US
    shows_us += clients.max(memory.instances["blind_s"][window.instance]) * _US  # unknown is no evidence
    may_begin = (window.begin_us < shows_us) | np.isin(clients.codes, memory.codes("deploy-regression"))
    judged = (age_s >= figures["young_s"]) & (age_s < figures["within_s"]) & may_begin
    bad = judged & np.logical_or.reduce([test.is_known & test.is_bad for test in tests])
    more = _words(window, memory, deploys, bad, by_client.medians(latency.own)) | {"called": commits.called}
    return of_subjects(
        clients,
        [replace(test, more=more) for test in tests],
        judged=judged,
        certainty=OWN_HISTORY,
        since_us=deploys.began_us,
    )


def _latency(window: Window, memory: Memory, figures: Figures) -> _Latency:
    """Latencies without the delay that clients of each link's broker have in common.

    At most the excess of a link over its own history is subtracted: the delay of a broker does not affect clients that
    wait for less (`acks=1`), nor a fetch that waits for data anyway.
    """
    parts = parts_of(window, memory, figures)
    row, path, link_value = window.links.row, paths_of(window).by_path.of, parts.link_value
    known = ~np.isnan(parts.expected[path])
    if not known.all():
        row, path, link_value = row[known], path[known], link_value[known]
    expected, wait = parts.expected[path], parts.wait[path]
    own = link_value - np.minimum(parts.node_part[path], np.maximum(link_value - expected, 0))
    usual = np.maximum(expected, wait)
    count = np.bincount(row, minlength=len(window))

    def of_rows(values: Numbers) -> Numbers:
        total = np.bincount(row, values, minlength=len(window))
        mean: Numbers = np.divide(total, count, out=np.full(len(window), np.nan), where=count > 0)
        return mean

    above = medians(row, np.maximum(own, wait) - usual, len(window), low=True)
    return _Latency(above, of_rows(usual), of_rows(own))


def _read_per_s(window: Window) -> Numbers:
    """Records per second that each row reads, or its part of the commits of its group, as brokers know them."""
    read = window.rows.number("records_consumed") / window.seconds
    groups, offsets = window.groups, window.offsets
    if offsets is None:
        return read
    of_group = np.full(len(groups) + 1, np.nan)  # the last is of rows without a group
    per_s = offsets.whole.committed / np.where(offsets.whole.seconds > 0, offsets.whole.seconds, np.nan)
    of_group[np.searchsorted(groups.codes, offsets.codes)] = per_s
    members = np.append(groups.count(np.ones(len(window), np.bool_)), 1)
    return np.where(np.isnan(read), (of_group / np.maximum(members, 1))[groups.of_row], read)


def _has_more_to_read(window: Window, memory: Memory, figures: Figures) -> Numbers:
    """True for clients whose group's lag grows."""
    grows = np.append(lag_trend(window, memory, figures.of["lagging"]), np.nan)[window.groups.of_row] > 0
    return window.clients.count(grows) > 0


def _failed(window: Window) -> tuple[Numbers, Numbers]:
    """Share of the records of each row that failed or were sent again, and the number of records sent."""
    rows = window.rows
    sent = np.fmax(rows.number("records_sent"), 0)
    bad = np.fmax(rows.number("record_errors"), 0) + np.fmax(rows.number("record_retries"), 0)
    is_known = ~np.isnan(rows.number("record_errors")) & (sent > 0)
    return np.where(is_known, bad / np.maximum(sent, 1), np.nan), sent


def _throughput(window: Window, memory: Memory) -> Numbers:
    """log(1 + records per second that each row would send at the usual load of its cluster).

    The load is the median factor of the instances of a cluster against their own means, as by the time of day. The rate
    is divided by it before the log is taken: in log(1 + rate) a factor is the smaller, the lower the rate. Consumers
    are not judged by it: producers determine how much they read.
    """
    known = memory.instances
    rate = window.rows.number("records_sent") / window.seconds
    usual = np.where(known["judged_s"][window.instance] > 0, np.expm1(known["throughput"][window.instance]), np.nan)
    least = 1 / window.length_s  # one record a window
    change = np.log(np.maximum(rate, least)) - np.log(np.maximum(usual, least))
    # Of an instance that sent nothing before, any rate is a thousand times more: it says nothing of the load.
    change[~(usual > least)] = np.nan
    count = int(window.cluster.max(initial=-1)) + 1
    common = medians(window.cluster, change, count)
    common[np.bincount(window.cluster[~np.isnan(change)], minlength=count) < _LEAST_PEERS] = 0.0
    at_usual_load: Numbers = np.log1p(rate / np.exp(np.nan_to_num(common))[window.cluster])
    return at_usual_load


def _of_clients(window: Window, memory: Memory, measure: str, own: Numbers) -> Numbers:
    """Rate of each client over all its instances, with the recent one of those that push in another window.

    Args:
        window: what is judged.
        memory: of the windows before.
        measure: `throughput` or `read`.
        own: the rates of its rows, as log(1 + records per second).
    """
    clients, known = window.clients, memory.instances
    others = between_pushes(window, known)
    place = np.minimum(np.searchsorted(clients.codes, known["client"][others]), len(clients) - 1)
    is_known = (clients.codes[place] == known["client"][others]) & ~np.isnan(known[f"recent_{measure}"][others])
    rates = np.expm1(known[f"recent_{measure}"][others[is_known]])
    of_clients: Numbers = clients.sum(np.expm1(own)) + np.bincount(place[is_known], rates, len(clients))
    return of_clients


def _is_shared(window: Window, now: Numbers, before: Numbers, is_new: Numbers, factor: float) -> Numbers:
    """True for clients that send less while all with their prefix together do not: new ones share the work.

    Args:
        window: of the clients.
        now: rate of each [records per s].
        before: rate before its deploy [records per s]; NaN for other clients, which sent as now, or nothing if new.
        is_new: True for clients that came recently.
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
    """Deploys, by the instances that ended while the present ones came, or shortly before, and have enough history."""
    clients, known = window.clients, memory.instances
    first_us = -clients.max(-known["first_us"][window.instance].astype(np.float64))
    place = np.minimum(np.searchsorted(clients.codes, known["client"]), len(clients) - 1)
    gap_us = (figures["gap_s"] + 2 * known["interval_s"]) * _US
    last = known["last_us"]
    is_before = (clients.codes[place] == known["client"]) & (known["judged_s"] >= figures.history_s(window.length_s))
    is_before &= (known["first_us"] < first_us[place]) & (last >= first_us[place] - gap_us)
    is_before[window.instance] = False
    before = np.flatnonzero(is_before & (last < window.begin_us - _ENDED_INTERVALS * known["interval_s"] * _US))
    at, count = place[before], len(clients)
    version = np.full(count, -1)
    version[at] = known["version"][before]
    # Where an old instance is left, the deploy is as old as the end of the first that is gone.
    ended_us = np.full(count, np.inf)
    np.minimum.at(ended_us, at, last[before] - 2 * known["interval_s"][before] * _US)
    first_us = np.where(np.isinf(ended_us), first_us, np.maximum(first_us, ended_us))
    done_us, began_us = first_us.copy(), np.zeros(count)
    np.maximum.at(done_us, at, last[before])
    is_earlier = last[before] <= first_us[at]
    np.maximum.at(began_us, at[is_earlier], last[before[is_earlier]])
    began_us = np.where(began_us > 0, began_us, first_us)

    def in_all(name: str) -> Numbers:
        rates = known[name][before]
        is_known = ~np.isnan(rates)
        sums = np.bincount(at[is_known], np.expm1(rates[is_known]), count).astype(np.float64)
        sums[np.bincount(at[is_known], minlength=count) == 0] = np.nan
        return sums

    of_measure = {name: medians(at, known[name][before], count) for name in ("latency", "waited", "failed", "commits")}
    of_measure |= {name: np.fmin(in_all(name), in_all(f"recent_{name}")) for name in ("throughput", "read")}
    return _Deploys(first_us, began_us, done_us, version, of_measure)


def _remember(window: Window, memory: Memory, values: dict[str, Numbers]) -> None:
    """Updates the running means of each instance by a window."""
    known, code, covered_s = memory.instances, window.instance, window.covered_s
    judged_s = known["judged_s"][code]
    recent = {f"recent_{name}": values[name] for name in ("throughput", "read")}
    for settles_s, measures in ((_REMEMBERED_S, values), (_RECENT_S, recent)):
        weight = np.maximum(covered_s / (judged_s + covered_s), np.minimum(covered_s / settles_s, 1.0))
        for name, value in measures.items():
            before = np.where(judged_s > 0, known[name][code], np.nan)
            mean = np.where(np.isnan(before), value, before + weight * (value - before))
            known[name][code] = np.where(np.isnan(value), before, mean)
    known["judged_s"][code] += covered_s
    is_blind = np.isnan(values["commits"]) & ~np.isnan(window.rows.number("commit_latency_avg_ms"))
    known["blind_s"][code] += np.where(is_blind, covered_s, 0)


def _words(window: Window, memory: Memory, deploys: _Deploys, bad: Numbers, own: Numbers) -> dict[str, Numbers]:
    """Words for the sentences of bad clients: time of the deploy, change of version, and latencies."""
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
            words["change"][place] = f" (version {new}, before {old})"
    return words


VERDICTS: Final = (
    Verdict(
        id="deploy-regression",
        find=_deploy_regression,
        action="Roll back the last deploy of {subject}, or find what it changed: settings, version, code.",
        needs={
            "java": (
                "request_latency_avg_ms",
                "record_errors",
                "records_sent",
                "commit_latency_avg_ms",
                "records_consumed",
            ),
            "librdkafka": ("request_latency_avg_ms",),
            "franz-go": ("request_latency_avg_ms",),
        },
        history="deploy-regression",
        explains=(
            "slow-client",
            "slow-path",
            "buffer-full",
            "record-errors",
            "slow-processing",
            "rebalance-storm",
            "stalled",
            "uneven-group",
            "lagging",
        ),
    ),
)

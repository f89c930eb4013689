"""Consumers whose applications poll too rarely, or whose fetches return too little."""

from dataclasses import replace
from typing import Final

import numpy as np

from fleetgauge.verdicts.arrow import Numbers
from fleetgauge.verdicts.declare import (
    BY_OFFSETS,
    BY_TELEMETRY,
    OWN_HISTORY,
    PHYSICAL,
    TOO_YOUNG,
    Finding,
    Threshold,
    Verdict,
    of_clients,
)
from fleetgauge.verdicts.families.beside_traffic import beside_traffic, per_instance
from fleetgauge.verdicts.families.commits import fetches_wait_as_usual
from fleetgauge.verdicts.families.lag import lag_trend
from fleetgauge.verdicts.families.members import has_most_work
from fleetgauge.verdicts.families.request_rate import busy
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.rules import Figures
from fleetgauge.verdicts.window import LIBRDKAFKA, Window
from fleetgauge.verdicts.witnesses.traffic import FETCH

_LEAST_RATIO: Final = 1e-4
"""Smaller ratios enter the history as this one."""


def _slow_processing(window: Window, memory: Memory, figures: Figures) -> Finding:
    """Consumers that work all the time, or nearly too long between two calls of poll().

    A consumer that works all the time is not judged while it may be reading a backlog: just after its start, and while
    the lag of its group falls. Nor is one that reads far more than the others of its group: more is written to its
    partitions.
    """
    rows, share = window.rows, figures["poll_interval_share"]
    began_us = memory.instances["first_us"][window.instance]
    judged_us = began_us + int(figures["young_s"]) * 1_000_000
    is_old = window.begin_us >= judged_us
    given = rows.number("poll_idle_ratio_avg")
    has_time = window.instance[~is_old & (given >= figures["idle_ratio"])]
    memory.instances["spare_us"][has_time] = window.end_us
    # A consumer that is bad in its first judged window has been so since it was last seen to have time to spare.
    seen_us = np.maximum(began_us, memory.instances["spare_us"][window.instance])
    since_us = np.where(window.begin_us < judged_us + window.length_s * 1_000_000, seen_us, window.begin_us)
    trend = np.append(lag_trend(window, memory, figures.of["lagging"]), np.nan)[window.groups.of_row]
    left_out = {
        TOO_YOUNG: ~is_old & ~np.isnan(given),
        "its group works off a backlog": (trend < 0) & ~np.isnan(given),
        "it reads far more than the others of its group": has_most_work(window, memory, figures.of["uneven-group"]),
    }
    ratio = np.where(np.logical_or.reduce([*left_out.values()]), np.nan, given)
    is_of_time = (window.dialect != LIBRDKAFKA) | figures.is_on("polls_alike")
    of_polls = np.where(is_of_time, np.nan, ratio)
    allowed_ms = share * _max_poll_interval_ms(window, memory, figures)
    ended_ms, so_far_ms = rows.number("time_between_poll_max_ms"), rows.number("last_poll_seconds_ago") * 1000
    # A last poll() 80 s ago is not yet a good sign: the next one may come after 330 s.
    between_ms = np.where(np.isnan(ended_ms) & ~(so_far_ms > allowed_ms), np.nan, np.fmax(ended_ms, so_far_ms))
    # A 0 is one of less than a millionth, or of a binding that does not count: see `_beside_usual`.
    beside_lag = _beside_lag(np.where(of_polls > 0, of_polls, np.nan), trend > 0, figures)
    finding = of_clients(
        window,
        [
            Threshold(
                metric="poll_idle_ratio_avg",
                unit="ratio",
                observed=np.where(is_of_time, ratio, np.nan),
                bound=figures["idle_ratio"],
                is_upper=False,
                says="{subject} spends {observed} of its time idle in poll() (limit {bound}): it is at capacity",
            ),
            Threshold(
                metric="time_between_poll_max_ms",
                unit="ms",
                observed=between_ms,
                bound=allowed_ms,
                says="{subject} takes up to {observed} between two calls of poll() (limit {bound})",
            ),
            beside_lag,
            _beside_usual(window, of_polls, memory, figures),
        ],
        certainty=np.where(np.isnan(of_polls), PHYSICAL, OWN_HISTORY),
        sources=BY_TELEMETRY + BY_OFFSETS * beside_lag.is_bad,
    )
    return replace(finding, since_us=since_us, left_out=left_out)


# librdkafka's ratio is a mean over the calls of poll(), however long each took: an application that takes one message
# per call waits in only one call of each burst, and has 0.05 with two thirds of its time to spare. So a low ratio alone
# proves nothing.


def _beside_lag(of_polls: Numbers, grows: Numbers, figures: Figures) -> Threshold:
    """Test for few calls of librdkafka's poll() that wait, while the lag of the group grows (by samples of brokers)."""
    enough = figures["idle_ratio"]
    return Threshold(
        metric="poll_idle_ratio_avg", unit="ratio", is_upper=False, bound=enough,
        observed=np.where(grows | (of_polls >= enough), of_polls, np.nan),
        says="{observed} of the poll() calls of {subject} wait for records (limit {bound}), while the lag of its "
        "group grows",
    )  # fmt: skip


def _beside_usual(window: Window, of_polls: Numbers, memory: Memory, figures: Figures) -> Threshold:
    """Test for a client of librdkafka that waits in less than a tenth (`idle_ratio`) of the usual share of its polls.

    With bursts of n messages, one call in n waits while there is time to spare, and fewer with less time to spare. So
    with bursts as before, a tenth of the usual ratio means at most a tenth of the time to spare: 0.02 where 0.3 is
    usual. Bursts are as before if fetches wait for data as long as before. If they wait for less, or if that is not
    known, only a ratio near 0 (`waiting_polls`) counts. So does a 0, which tells nothing where the usual ratio is
    about 0: calls may not be counted at all.
    """
    history, clients = memory.history("idle"), window.clients
    least_s, ratio = figures.history_s(window.length_s), np.maximum(clients.median(of_polls), _LEAST_RATIO)
    usual = np.exp(history.expected(clients.codes, least_s))[clients.of_row]
    history.learn(clients.codes, np.log(ratio), window.seconds_of(clients.codes), least_s)
    bound = figures["idle_ratio"] * usual
    of_polls = np.where((of_polls > 0) | (bound > _LEAST_RATIO), of_polls, np.nan)
    is_alike = fetches_wait_as_usual(window, memory, figures, of_polls < bound)
    bound = np.where(is_alike, bound, np.minimum(bound, figures["waiting_polls"]))
    return Threshold(
        metric="poll_idle_ratio_avg", unit="ratio", is_upper=False, observed=of_polls, bound=bound, expected=usual,
        says="{observed} of the poll() calls of {subject} wait for records (usually {expected}, limit {bound})",
    )  # fmt: skip


def _max_poll_interval_ms(window: Window, memory: Memory, figures: Figures) -> Numbers:
    """`max.poll.interval.ms` of each row: the figure for its client id, or else the default."""
    limits_ms = np.full(len(window), figures["max_poll_interval_ms"])
    own = figures.table("max_poll_interval_ms_of")
    if own:
        ids = window.rows.column("client_id").to_pylist()
        limits_ms = np.array([own.get(client_id, figures["max_poll_interval_ms"]) for client_id in ids])
    return limits_ms


def _tiny_fetches(window: Window, memory: Memory, figures: Figures) -> Finding:
    is_busy, more = busy(window, memory, "fetch_rate_per_s", figures["fetches_per_s"])
    size = np.where(is_busy, window.rows.number("fetch_size_avg_bytes"), np.inf)
    finding = of_clients(
        window,
        [
            Threshold(
                metric="fetch_size_avg_bytes",
                unit="bytes",
                observed=np.where(np.isnan(more["rate"]), np.nan, size),
                bound=figures["bytes"],
                is_upper=False,
                says="{subject} sends {rate:,.0f} fetches per second{mean} that return {observed} each (limit {bound})",
                more=more,
            )
        ],
    )
    if window.traffic is None:
        return finding
    sums = window.traffic.sums[FETCH]
    fetches = np.where(sums["requests"] > 0, sums["requests"], np.nan)
    rate = per_instance(window, window.traffic, fetches)
    size = np.where(rate >= figures["fetches_per_s"], sums["response_bytes"] / fetches, np.inf)
    tiny = Threshold(
        metric="traffic.bytes_per_fetch",
        unit="bytes",
        observed=np.where(np.isnan(rate), np.nan, size),
        bound=figures["bytes"],
        is_upper=False,
        share=window.traffic.share,
        says="{subject} sends {rate:,.0f} fetches per second through a gateway that return {observed} each (limit "
        "{bound})",
        more={"rate": rate},
    )
    return beside_traffic(window, finding, [tiny], is_rate=True)


VERDICTS: Final = (
    Verdict(
        id="slow-processing",
        find=_slow_processing,
        action="Make {subject} faster per record, lower max.poll.records, or add members and partitions.",
        needs={
            "java": ("poll_idle_ratio_avg", "time_between_poll_max_ms"),
            "librdkafka": ("poll_idle_ratio_avg",),
        },
        roles=("consumer", "share-consumer"),
        explains=("rebalance-storm", "lagging", "stalled", "uneven-group"),
    ),
    Verdict(
        id="tiny-fetches",
        find=_tiny_fetches,
        action="Raise fetch.min.bytes of {subject}, and fetch.max.wait.ms to a delay that it tolerates.",
        needs={"java": ("fetch_size_avg_bytes",)},
        roles=("consumer",),
        by_traffic=("fetch",),
    ),
)

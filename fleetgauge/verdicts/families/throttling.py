"""Clients that brokers or gateways throttle by a quota."""

from typing import Final

import numpy as np

from fleetgauge.verdicts.arrow import Numbers
from fleetgauge.verdicts.declare import Finding, Threshold, Verdict, of_clients
from fleetgauge.verdicts.families.beside_traffic import beside_traffic
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.rules import Figures
from fleetgauge.verdicts.window import FRANZ_GO, Window
from fleetgauge.verdicts.witnesses.traffic import FETCH, PRODUCE, Traffic


def _throttled(window: Window, memory: Memory, figures: Figures) -> Finding:
    latency_ms = _latency_ms(window)
    finding = of_clients(window, [_test(window, figures, latency_ms, *each) for each in _REQUESTS])
    if window.traffic is None:
        return finding
    return beside_traffic(window, finding, [_of_traffic(window.traffic, figures, *each) for each in _APIS])


_REQUESTS: Final = (("produce", "request_rate_per_s"), ("fetch", "fetch_rate_per_s"))
_APIS: Final = (("produce", PRODUCE), ("fetch", FETCH))


def _test(window: Window, figures: Figures, latency_ms: Numbers, request: str, rate: str) -> Threshold:
    """Test of the share of the time that brokers throttle a client, per broker.

    For Java it is the request rate times the mean throttle time: 20 requests per second to 2 brokers, throttled by
    30 ms each, are 20 * 0.03 / 2 = 0.3. Others send no rate: for them it is throttle time / (throttle time + latency),
    if most pushes have a throttle time. franz-go's average is the share already: it divides the sum of its throttle
    times by the push interval, so its sentence has the longest time. It leaves zeros out: a push with latencies alone
    is of no throttled one.

    One path may have all of the throttle time: requests to three brokers were throttled by 498 ms on average, and took
    2,765, 102 and 49 ms. So a path is compared with the longest throttle time.
    """
    rows = window.rows
    throttle_ms = rows.number(f"{request}_throttle_avg_ms")
    brokers = np.maximum(window.link_count, 1)
    by_rate = throttle_ms * rows.number(rate) / 1000 / brokers
    # franz-go leaves a throttle time of 0 out: pushes count, not samples.
    most = rows.number(f"{request}_throttled") >= figures["pushes_share"] * np.maximum(rows.number("pushes"), 1)
    is_share = window.dialect == FRANZ_GO
    longest_ms = np.fmax(rows.number(f"{request}_throttle_max_ms"), np.where(is_share, np.nan, throttle_ms))
    throttle_ms = np.where(np.isnan(throttle_ms) & is_share & (window.link_count > 0), 0.0, throttle_ms)
    by_time = np.where(is_share, throttle_ms, throttle_ms / (throttle_ms + np.fmax(latency_ms, 1.0)))
    share = np.where(np.isnan(by_rate), np.where(most, by_time, np.where(np.isnan(throttle_ms), np.nan, 0.0)), by_rate)
    return Threshold(
        metric=f"{request}_throttle_avg_ms",
        unit="ratio",
        observed=np.minimum(share, 1.0),
        bound=figures["time_share"],
        says=f"brokers throttle {{subject}} ({request} quota) {{observed}} of the time, "
        "{up_to}{ms:,.0f} ms per throttled request",
        more={
            "ms": np.where(is_share, longest_ms, throttle_ms),
            "longest_ms": longest_ms,
            "up_to": np.where(is_share, "up to ", ""),
        },
    )


def _of_traffic(traffic: Traffic, figures: Figures, request: str, api: int) -> Threshold:
    """Test of the share of the time that a gateway throttles a client, if it throttles most of its requests.

    The share is throttle time / (throttle time + broker time), as for libraries without a rate. An instance cannot be
    throttled for longer than all of them together.
    """
    sums = traffic.sums[api]
    requests, throttle_ms = sums["requests"], sums["throttle_time_ms"]
    by_time = throttle_ms / np.maximum(throttle_ms + sums["broker_time_ms"], 1.0)
    share = np.minimum(by_time, throttle_ms / 1000 / traffic.seconds)
    mean_ms = throttle_ms / np.maximum(sums["throttled_requests"], 1)
    most = sums["throttled_requests"] >= figures["pushes_share"] * requests
    return Threshold(
        metric=f"traffic.{request}_throttle_time_ms",
        unit="ratio",
        observed=np.where(requests > 0, np.where(most, np.minimum(share, 1.0), 0.0), np.nan),
        bound=figures["time_share"],
        share=traffic.share,
        says=f"a gateway throttles {{subject}} ({request} quota) {{observed}} of the time, {{ms:,.0f}} ms per "
        "throttled request",
        more={"ms": mean_ms, "longest_ms": mean_ms},
    )


def _latency_ms(window: Window) -> Numbers:
    """Mean latency over the links of each row [ms]."""
    links = window.links
    total = np.bincount(links.row, links.latency_ms, minlength=len(window))
    return total / np.maximum(window.link_count, 1)


VERDICTS: Final = (
    Verdict(
        id="throttled",
        side="quota",
        find=_throttled,
        action="Raise the quota of {subject} if this load is intended, or reduce what it sends and fetches.",
        needs={
            "java": ("produce_throttle_avg_ms", "fetch_throttle_avg_ms"),
            "librdkafka": ("produce_throttle_avg_ms", "fetch_throttle_avg_ms"),
            "franz-go": ("produce_throttle_avg_ms",),
        },
        roles=("producer", "consumer", "share-consumer"),
        by_traffic=("produce", "fetch"),
        explains=(
            "silent",  # brokers read nothing from a throttled connection, not even pushes
            "slow-client",
            "slow-path",
            "buffer-full",
            "lagging",
            "stalled",
            "deploy-regression",
        ),
    ),
)

"""Producers: small requests, no compression, full buffers, and records that fail."""

from typing import Final

import numpy as np

from fleetgauge.verdicts.arrow import Numbers
from fleetgauge.verdicts.declare import Finding, Threshold, Verdict, of_clients
from fleetgauge.verdicts.families.beside_traffic import beside_traffic, per_instance
from fleetgauge.verdicts.families.request_rate import busy
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.rules import Figures
from fleetgauge.verdicts.window import Window
from fleetgauge.verdicts.witnesses.traffic import PRODUCE, Traffic


def _small_batches(window: Window, memory: Memory, figures: Figures) -> Finding:
    rows = window.rows
    is_busy, more = busy(window, memory, "request_rate_per_s", figures["requests_per_s"])
    says = "{subject} sends {rate:,.0f} requests per second{mean} of {observed} each (limit {bound})"
    finding = of_clients(
        window,
        [
            Threshold(
                metric="records_per_request_avg", unit="records", is_upper=False, bound=figures["records"],
                observed=np.where(is_busy, rows.number("records_per_request_avg"), _fine(more["rate"])),
                says=says, more=more,
            ),
            Threshold(
                metric="request_size_avg_bytes", unit="bytes", is_upper=False, bound=figures["bytes"],
                observed=np.where(is_busy, rows.number("request_size_avg_bytes"), _fine(more["rate"])),
                says=says, more=more,
            ),
        ],
        judged=~np.isnan(rows.number("records_per_request_avg")),
    )  # fmt: skip
    if window.traffic is None:
        return finding
    return beside_traffic(window, finding, _small_by_traffic(window, window.traffic, figures), is_rate=True)


def _small_by_traffic(window: Window, traffic: Traffic, figures: Figures) -> list[Threshold]:
    sums = traffic.sums[PRODUCE]
    requests = np.where(sums["requests"] > 0, sums["requests"], np.nan)
    rate = per_instance(window, traffic, requests)
    is_busy = rate >= figures["requests_per_s"]
    return [
        Threshold(
            metric=f"traffic.{name}", unit=unit, is_upper=False, bound=figures[unit], share=traffic.share,
            observed=np.where(is_busy & is_counted, sums[column] / requests, _fine(rate)),
            says="{subject} sends {rate:,.0f} produce requests per second of {observed} each (limit {bound}) through a "
            "gateway",
            more={"rate": rate},
        )
        for name, unit, column, is_counted in (
            ("records_per_request", "records", "records", sums["batches"] > 0),
            ("bytes_per_request", "bytes", "request_bytes", True),
        )
    ]  # fmt: skip


def _fine(rate: Numbers) -> Numbers:
    """Infinity, which is never below a bound; NaN where the rate is not known."""
    return np.where(np.isnan(rate), np.nan, np.inf)


def _uncompressed(window: Window, memory: Memory, figures: Figures) -> Finding:
    rows = window.rows
    ratio, sent = rows.number("compression_rate_avg"), rows.number("bytes_sent_per_s")
    finding = of_clients(
        window,
        [
            Threshold(
                metric="bytes_sent_per_s", unit="bytes per s", bound=figures["bytes_per_s"],
                observed=np.where(ratio >= figures["compression_rate"], sent, ratio * 0),
                says="{subject} sends {observed} (limit {bound}) without compression",
            )
        ],
    )  # fmt: skip
    if window.traffic is None:
        return finding
    sums = window.traffic.sums[PRODUCE]
    is_plain = sums["uncompressed"] >= sums["batches"]
    rate = per_instance(window, window.traffic, np.where(is_plain, sums["record_bytes"], 0.0))
    plain = Threshold(
        metric="traffic.record_bytes_per_s", unit="bytes per s", bound=figures["bytes_per_s"],
        observed=np.where(sums["batches"] > 0, rate, np.nan), share=window.traffic.share,
        says="{subject} sends {observed} (limit {bound}) without compression through a gateway",
    )  # fmt: skip
    return beside_traffic(window, finding, [plain], is_rate=True)


def _buffer_full(window: Window, memory: Memory, figures: Figures) -> Finding:
    rows, history = window.rows, memory.history("queue")
    queue = rows.number("record_queue_time_avg_ms")
    clients = window.clients
    least_s = figures.history_s(window.length_s)
    before = np.expm1(history.expected(clients.codes, least_s))[clients.of_row]
    history.learn(clients.codes, clients.median(np.log1p(queue)), window.seconds_of(clients.codes), least_s)
    return of_clients(
        window,
        [
            Threshold(
                metric="buffer_wait_ratio_avg", unit="ratio", bound=figures["wait_ratio"],
                observed=rows.number("buffer_wait_ratio_avg"),
                says="{subject} spends {observed} of its time waiting for buffer memory (limit {bound})",
            ),
            Threshold(
                metric="buffer_exhausted_records", unit="records", bound=0.0,
                observed=rows.number("buffer_exhausted_records"),
                says="{subject} dropped {observed} because its buffer was full",
            ),
            Threshold(
                metric="record_queue_time_avg_ms", unit="ms", observed=queue, expected=before,
                bound=np.maximum(figures["queue_factor"] * before, figures["least_queue_ms"]),
                says="records of {subject} wait {observed} in its queue (usually {expected}, limit {bound})",
            ),
        ],
    )  # fmt: skip


def _record_errors(window: Window, memory: Memory, figures: Figures) -> Finding:
    rows = window.rows
    sent, retries = rows.number("records_sent"), rows.number("record_retries")
    # A moment of errors may fall into two windows, and into pushes of several instances. Its duration follows from the
    # pushes with errors, each of which has a failed record; the first of all shows only that it began.
    errors, pushes = rows.number("record_errors"), np.maximum(rows.number("pushes"), 1)
    failing = rows.number("record_error_pushes")  # 0 or null where its rate is not subscribed to
    failing = np.minimum(np.where(failing > 0, failing, pushes), errors)
    has_begun = np.isin(window.client, memory.codes("record-errors"))
    part = np.nan_to_num(np.where(has_begun, failing, failing - 1)) / pushes
    share = retries / np.maximum(np.nan_to_num(sent), 1)
    finding = of_clients(
        window,
        [
            Threshold(
                metric="record_errors", unit="records", observed=errors, bound=figures["errors"],
                share=np.clip(part, 0.0, 1.0),
                says="{observed} of {subject} failed in one window",
            ),
            Threshold(
                metric="record_retries", unit="ratio", observed=share, bound=figures["retry_share"],
                says="{subject} retries {observed} of its records (limit {bound})",
            ),
        ],
    )  # fmt: skip
    if window.traffic is None:
        return finding
    sums = window.traffic.sums[PRODUCE]
    failed = Threshold(
        metric="traffic.errors", unit="ratio", bound=figures["retry_share"], share=window.traffic.share,
        observed=np.where(sums["batches"] > 0, sums["errors"] / np.maximum(sums["batches"], 1), np.nan),
        says="brokers answer {observed} of the batches of {subject} with an error (limit {bound})",
    )  # fmt: skip
    return beside_traffic(window, finding, [failed])


VERDICTS: Final = (
    Verdict(
        id="buffer-full", find=_buffer_full, roles=("producer",),
        needs={
            "java": ("buffer_wait_ratio_avg", "buffer_exhausted_records", "record_queue_time_avg_ms"),
            "librdkafka": ("record_queue_time_avg_ms",),
        },
        action="Reduce the load of {subject}, raise its batch size, or raise its memory: buffer.memory or "
        "queue.buffering.max.kbytes.",
        explains=("record-errors",),
    ),
    Verdict(
        id="record-errors", side="unknown", find=_record_errors, roles=("producer",),
        needs={"java": ("record_errors", "record_retries")},
        by_traffic=("produce",),
        action="Check the errors in the log of {subject}: records too large, missing permissions, timeouts, or no "
        "leader.",
    ),
    Verdict(
        id="small-batches", find=_small_batches, roles=("producer",),
        needs={"java": ("records_per_request_avg", "request_size_avg_bytes")},
        by_traffic=("produce",),
        action="Raise linger.ms (to 20 or more; 5 is the default since Java 4.0) and batch.size of {subject}.",
    ),
    Verdict(
        id="uncompressed", find=_uncompressed, roles=("producer",),
        needs={"java": ("compression_rate_avg",)},
        by_traffic=("produce",),
        action="Set compression.type of {subject} to lz4 or zstd.",
    ),
)  # fmt: skip

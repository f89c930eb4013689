"""The counts of an interval as rows, for the files of `exporters.traffic`."""

from collections.abc import Mapping
from typing import Any

from fleetgauge.gateway.messages.walk import COMPRESSIONS
from fleetgauge.gateway.traffic.counts import Counts, Key
from fleetgauge.gateway.traffic.status import api_name


def rows_of(
    minute: Mapping[Key, Counts], *, window_start_us: int, window_ms: int, cluster_id: str, node_id: int
) -> list[dict[str, Any]]:
    """One row per client, API and group.

    Args:
        minute: counts of one interval.
        window_start_us: when it began [us since the epoch].
        window_ms: how long it was [ms].
        cluster_id: of the gateway.
        node_id: of the gateway.
    """
    common = {
        "window_start": window_start_us,
        "window_ms": window_ms,
        "cluster_id": cluster_id,
        "node_id": node_id,
    }
    return [{**common, **_row(key, counts)} for key, counts in minute.items()]


def _row(key: Key, counts: Counts) -> dict[str, Any]:
    return {
        "principal": key.principal,
        "client_id": key.client_id,
        "group_id": key.group_id or None,
        "api_key": key.api_key,
        "api": api_name(key.api_key),
        "api_version": counts.api_version,
        "requests": counts.requests,
        "request_bytes": counts.request_bytes,
        "response_bytes": counts.response_bytes,
        "gateway_time_ms": counts.gateway_ns / 1e6,
        "broker_time_ms": counts.broker_ns / 1e6,
        "broker_time_max_ms": counts.broker_max_ns / 1e6,
        "throttled_requests": counts.throttled,
        "throttle_time_ms": counts.throttle_ms,
        "group_joins": counts.joins,
        "batches": counts.batches,
        "records": counts.records,
        "record_bytes": counts.record_bytes,
        "compressions": [(name, n) for name, n in zip(COMPRESSIONS, counts.compressions, strict=True) if n],
        "errors": sorted(counts.errors.items()),
    }

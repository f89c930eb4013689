"""The figures of several workers as those of one node. Pure: statuses and rows in, statuses and rows out.

Counters, levels and rates are summed; a maximum is the largest one, and an average is weighted by how often each worker
recorded a value. Other values (names, reasons) are the same in every worker, or the first one's.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

from fleetgauge.node.listener.misdirected_clients import LATEST
from fleetgauge.node.status.node_socket import Status
from fleetgauge.telemetry.instances.client_metrics import INSTANCE_COUNT, INSTANCE_METRICS
from fleetgauge.telemetry.instances.client_state import ClientState
from fleetgauge.telemetry.instances.inventory import ClientRow, key_among, sender_key, with_software_of

_OF_THE_PARENT: Final = frozenset({"node", "http", "exporter_process"})
"""Parts of a status that the parent has itself; all other parts are merged from the workers."""

LEVELS: Final = frozenset(
    {
        "open",
        "unfinished_handshakes",
        "unfinished_request_bytes",
        "unread_response_bytes",
        "instances",
        "instances_with_metrics",
        "pending",
        "pending_bytes",
        "connections",
        "addresses",
        "instances_slowed",
        "instances_vanished",
        "instances_ended",
        "channels_held",
        "exempt_request_time",
        "remembered_clients",
        "usage_left_out",
        "broker_connections",
        "left_out",
        "topic_lost",
    }
)
"""Numbers that are levels. All other numbers are counters, which never fall."""

_CLIENT_METRICS: Final = "client_metrics"
_ADVICE: Final = "unmatched_prefixes"
_USAGE: Final = "usage"
"""Key of quotas' usage: usage and limits of the workers are summed, since each worker has its share of a limit."""
_LATEST: Final = "latest_clients"
_AVERAGE, _MAXIMUM, _COUNT, _RATE = "-avg", "-max", "-count", "-rate"
_OF_TIME: Final = "-time"


def merged_parts(statuses: Sequence[Mapping[str, Any]]) -> Status:
    """The parts about clients and pushes of several workers' statuses, as one; at least one status."""
    merged: Status = _merged([_parts(status) for status in statuses])
    return merged


def counts_of(status: Mapping[str, Any]) -> Status:
    """The counters of a worker that has ended, without its levels.

    With them the node's counters do not fall when a worker ends, which Prometheus would take for a restart of the node.
    """
    counted: Status = _without_levels(_parts(status))
    return counted


def _parts(status: Mapping[str, Any]) -> Status:
    return {part: value for part, value in status.items() if part not in _OF_THE_PARENT}


def _merged(values: Sequence[Any], key: str = "") -> Any:
    known = [value for value in values if value is not None]
    if not known:
        return None
    first = known[0]
    if key == _CLIENT_METRICS:
        return merged_client_metrics(known)
    if key == _LATEST:
        return merged_latest(known)
    if isinstance(first, Mapping):
        keys = dict.fromkeys(name for value in known for name in value)
        return {name: _merged([value.get(name) for value in known], name) for name in keys}
    if _is_by_listener(first):
        listeners = dict.fromkeys(entry["listener"] for value in known for entry in value)
        return [_merged([e for value in known for e in value if e["listener"] == name]) for name in listeners]
    if isinstance(first, int | float) and not isinstance(first, bool):
        return sum(known)
    return first


def merged_latest(lists: Iterable[Iterable[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """The latest misdirected clients of several workers; one that several have seen is listed once, as last seen."""
    latest: dict[tuple[str, str], dict[str, Any]] = {}
    for each in sorted((each for clients in lists for each in clients), key=lambda each: each["last_at"]):
        key = (each["client_id"], each["client_source_address"])
        before = latest.pop(key, None)
        latest[key] = {**each, "requests": each["requests"] + (before["requests"] if before else 0)}
    return list(reversed(latest.values()))[:LATEST]


def _is_by_listener(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping) and "listener" in value[0]


def merged_client_metrics(values: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Kafka's group `client-metrics` of several workers; None where none of them has a recent value.

    `instance-count` is summed, too: an instance that two workers have seen is managed by both, and counts twice.

    >>> slow = {"plugin-export-rate": 1.0, "plugin-export-time-avg": 9.0, "plugin-export-time-max": 9.0}
    >>> quick = {"plugin-export-rate": 3.0, "plugin-export-time-avg": 1.0, "plugin-export-time-max": 2.0}
    >>> merged_client_metrics([slow, quick])
    {'plugin-export-rate': 4.0, 'plugin-export-time-avg': 3.0, 'plugin-export-time-max': 9.0}
    """
    names = dict.fromkeys(name for each in values for name in each)
    return {name: _merged_metric(name, values) for name in names}


def _merged_metric(name: str, values: Sequence[Mapping[str, float | None]]) -> float | None:
    known = [(each, value) for each in values if (value := each.get(name)) is not None]
    if not known:
        return None
    if name.endswith(_MAXIMUM):
        return max(value for _, value in known)
    if name.endswith(_AVERAGE):
        rate = name.removesuffix(_AVERAGE).removesuffix(_OF_TIME) + _RATE
        weights = [each.get(rate) or 0.0 for each, _ in known]
        total = sum(weights)
        if not total:
            return None
        return sum(weight * value for weight, (_, value) in zip(weights, known, strict=True)) / total
    return sum(value for _, value in known)


def _without_levels(value: Any, key: str = "") -> Any:
    if key in (_ADVICE, _USAGE):
        return {}
    if key == _CLIENT_METRICS:
        return {name: each for name, each in value.items() if name.endswith(_COUNT) and name != INSTANCE_COUNT}
    if isinstance(value, Mapping):
        return {name: _without_levels(each, name) for name, each in value.items()}
    if _is_by_listener(value):
        return [_without_levels(each) for each in value]
    return 0 if key in LEVELS else value


def merged_own_metrics(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """The metrics of single instances: one row per instance, from the rows of the workers that have seen it."""
    names = [metric.name for metric in INSTANCE_METRICS]
    merged: dict[str, dict[str, float | None]] = {}
    for instance_id, *values in rows:
        each = dict(zip(names, (None if math.isnan(value) else value for value in values), strict=True))
        other = merged.get(instance_id)
        merged[instance_id] = each if other is None else merged_client_metrics([other, each])
    return [
        (instance_id, *(math.nan if value is None else value for value in each.values()))
        for instance_id, each in merged.items()
    ]


def merged_clients(rows: Iterable[Sequence[Any]]) -> list[ClientRow]:
    """The inventory: one row per instance (id and sender), from the rows of the workers that have seen it.

    Software, address and state are those of the latest request; pushes, refusals and connections are summed.
    """
    merged: dict[Hashable, ClientRow] = {}
    for values in rows:
        row = ClientRow(*values)
        key = key_among(sender_key(row), row, merged)
        other = merged.get(key)
        merged[key] = row if other is None else _merged_client(other, row)
    return list(merged.values())


def _merged_client(one: ClientRow, other: ClientRow) -> ClientRow:
    earlier, later = sorted((one, other), key=lambda row: row.last_seen_at)
    refused = max(one, other, key=lambda row: row.last_error_at or 0)
    malformed = max(one, other, key=lambda row: row.malformed_at or 0)
    return with_software_of(later, earlier)._replace(
        state=_merged_state(earlier, later),
        connections=_sum(one.connections, other.connections),
        asked_for_records=one.asked_for_records or other.asked_for_records,
        pushes=one.pushes + other.pushes,
        push_bytes=_sum(one.push_bytes, other.push_bytes),
        last_push_at=max((at for at in (earlier.last_push_at, later.last_push_at) if at is not None), default=None),
        refused=_sum(one.refused, other.refused),
        last_error=refused.last_error,
        last_error_reason=refused.last_error_reason,
        last_error_at=refused.last_error_at,
        malformed=one.malformed + other.malformed,
        malformed_reason=malformed.malformed_reason,
        malformed_detail=malformed.malformed_detail,
        malformed_at=malformed.malformed_at,
    )


def _merged_state(earlier: ClientRow, later: ClientRow) -> str:
    if later.state == ClientState.VANISHED:
        return earlier.state  # it lost its connection to one worker, so the other's state holds
    if later.state == ClientState.NEW and (earlier.pushes or later.pushes):
        return ClientState.LIVE.value  # it sent its Get to one worker and its push to another: not new
    return later.state


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other

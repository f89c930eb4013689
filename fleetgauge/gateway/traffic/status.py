"""The statistics of traffic as plain values, for status and metrics."""

import heapq
from typing import Any, Final

from kio.schema.errors import ErrorCode

from fleetgauge.gateway.apis import PASSED
from fleetgauge.gateway.messages.walk import COMPRESSIONS
from fleetgauge.gateway.traffic.counts import Counts, Key
from fleetgauge.gateway.traffic.rules import TrafficRules

MAX_SHOWN: Final = 100
"""Most clients and APIs that are listed: those with the most bytes."""


def traffic_status(rules: TrafficRules) -> dict[str, Any]:
    """Traffic since the start.

    Returns:
        `by_api`: counts of each API, over all clients; `by_client`: of those clients and APIs with the most bytes,
        by a key that is the same in all workers;
        `left_out`: how many more there are; `requests_of_others`: of clients beyond those that are counted by name;
        `throttled`: requests by quota type; `unread_mutations`: see `QuotaJudge`.
    """
    totals = rules.counts.since_start()
    by_api: dict[int, Counts] = {}
    for key, counts in totals.items():
        by_api.setdefault(key.api_key, Counts()).add(counts)
    largest = heapq.nlargest(MAX_SHOWN, totals.items(), key=_bytes_of)
    return {
        "by_api": {api_name(key): _plain(counts) for key, counts in sorted(by_api.items())},
        "by_client": {
            repr((key.principal, key.client_id, key.api_key)): {
                "principal": key.principal,
                "client_id": key.client_id,
                "api": api_name(key.api_key),
                **_plain(counts),
            }
            for key, counts in largest
        },
        "left_out": len(totals) - len(largest),
        "requests_of_others": rules.counts.others,
        "throttled": dict(rules.judge.throttled),
        "unread_mutations": rules.judge.unread_mutations,
    }


def api_name(api_key: int) -> str:
    """Kafka's name of an API, or its key."""
    api = PASSED.get(api_key)
    return str(api_key) if api is None else api.name


def error_name(code: int) -> str:
    """Kafka's name of an error code, or the code.

    >>> error_name(89), error_name(9_999)
    ('THROTTLING_QUOTA_EXCEEDED', '9999')
    """
    try:
        return ErrorCode(code).name.upper()
    except ValueError:
        return str(code)


def _bytes_of(item: tuple[Key, Counts]) -> tuple[int, Key]:
    key, counts = item
    return counts.request_bytes + counts.response_bytes, key


def _plain(counts: Counts) -> dict[str, Any]:
    return {
        "requests": counts.requests,
        "request_bytes": counts.request_bytes,
        "response_bytes": counts.response_bytes,
        "gateway_ms": counts.gateway_ns / 1e6,
        "broker_ms": counts.broker_ns / 1e6,
        "throttled": counts.throttled,
        "throttle_ms": counts.throttle_ms,
        "joins": counts.joins,
        "batches": counts.batches,
        "records": counts.records,
        "record_bytes": counts.record_bytes,
        "compressions": {name: count for name, count in zip(COMPRESSIONS, counts.compressions, strict=True) if count},
        "errors": {error_name(code): count for code, count in sorted(counts.errors.items())},
    }

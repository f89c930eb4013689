"""Usage of limits, by telemetry: `fleetgauge fleet whatif` replays recorded byte rates under them.

It runs as a process of its own, since nothing here imports `fleet`.
"""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from fleetgauge.base.module_command import module_command
from fleetgauge.cluster.errors import ResourceError
from fleetgauge.cluster.quotas.limits import Entity, LimitName, entity_of, parts_of
from fleetgauge.quotas.entity import DEFAULT_NAME, KafkaQuotaEntity

REPLAYED: Final = ("producer_byte_rate", "consumer_byte_rate")
"""The keys whose usage clients send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Usage of one limit.

    Attributes:
        utilization: the highest rate at any broker over the limit, of those who use most of it; None where no client
            of it has sent bytes.
        instances: client instances that the limit is for.
        without_bytes: those of them whose library does not send bytes.
        throttled: those who share the limit and would have been throttled; for a default there may be several.
    """

    utilization: float | None
    instances: int
    without_bytes: int
    throttled: int


def usage(limits: Mapping[LimitName, float], tables: str, since: str) -> dict[LimitName, Usage]:
    """The usage of limits of `REPLAYED`, as far as the tables know clients of them.

    Args:
        limits: all of the cluster: the most specific one of a client counts.
        tables: root of the fleet tables.
        since: age of the first window: 30m, 2h, 7d.

    Raises:
        ResourceError: the tables cannot be read; the text says why.
    """
    asked = [_asked(entity, key, limit) for (entity, key), limit in limits.items()]
    words = [word for text in asked if text for word in ("--quota", text)]
    if not words:
        return {}
    command = [*module_command("fleetgauge"), "fleet", "whatif", "--tables", tables, "--since", since]
    ran = subprocess.run([*command, "--format", "json", *words], capture_output=True, text=True, check=False)
    if ran.returncode:
        problem = ran.stderr.strip().removeprefix("Error: ")
        raise ResourceError(problem or f"fleetgauge fleet whatif ended with {ran.returncode}")
    return merged(json.loads(ran.stdout))


def _asked(entity: Entity, key: str, limit: float) -> str:
    if key not in REPLAYED or not isinstance(entity, KafkaQuotaEntity):
        return ""
    names = ((kind, DEFAULT_NAME if name is None else quote(name, safe="")) for kind, name in parts_of(entity).items())
    return ",".join([*(f"{kind}={name}" for kind, name in names), f"{key}={limit!r}"])


def merged(rows: list[Mapping[str, Any]]) -> dict[LimitName, Usage]:
    """One usage per limit, of the rows of all who share it.

    >>> row = {"quota": "user=alice", "quota_key": "producer_byte_rate", "instances": 2, "instances_without_bytes": 1}
    >>> merged([{**row, "peak_ratio": 0.5, "throttled": False}, {**row, "peak_ratio": None, "throttled": None}])
    ... # doctest: +ELLIPSIS
    {(KafkaQuotaEntity(...), 'producer_byte_rate'): Usage(utilization=0.5, instances=4, without_bytes=2, throttled=0)}
    """
    by_limit: dict[LimitName, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_limit.setdefault((_entity(row["quota"]), row["quota_key"]), []).append(row)
    return {place: _usage(rows_of_limit) for place, rows_of_limit in by_limit.items()}


def _usage(rows: list[Mapping[str, Any]]) -> Usage:
    ratios = [row["peak_ratio"] for row in rows if row["peak_ratio"] is not None]
    return Usage(
        utilization=max(ratios, default=None),
        instances=sum(row["instances"] or 0 for row in rows),
        without_bytes=sum(row["instances_without_bytes"] or 0 for row in rows),
        throttled=sum(bool(row["throttled"]) for row in rows),
    )


def _entity(text: str) -> Entity:
    parts = (part.partition("=") for part in text.split(","))
    return entity_of({kind: None if name == DEFAULT_NAME else unquote(name) for kind, _, name in parts})

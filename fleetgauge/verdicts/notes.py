"""Notes of the judge on a window before the verdicts: first, last and terminating pushes of clients, trends of groups,
and the requests that gateways saw from clients.
"""

from collections.abc import Collection, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import numpy as np

from fleetgauge.verdicts.arrow import Table, as_numpy, is_valid, pa, pc
from fleetgauge.verdicts.memory import NAMES_KEPT_US, Memory
from fleetgauge.verdicts.rules import Rules
from fleetgauge.verdicts.window import Window, place_in
from fleetgauge.verdicts.witnesses.offsets import MOVING, SCHEMA, TRENDS, SampledGroups
from fleetgauge.verdicts.witnesses.traffic import KINDS

CLIENT_COLUMNS: Final = (
    "cluster_id", "principal", "client_instance_id", "dialect", "role", "group_id", "first_seen", "last_seen",
    "terminated",
)  # fmt: skip
"""Columns of CLIENTS that are read for every client."""

EXPECTED_INTERVAL: Final = "expected_interval_ms"
"""Optional further column: the push interval to expect of a client [ms], where more is known than its pushes show."""

_BEFORE_US: Final = 86_400_000_000
"""Clients last seen longer than this before the judged time are ignored [us]."""


def client_columns(rules: Rules) -> tuple[str, ...]:
    """Columns of CLIENTS to read: CLIENT_COLUMNS, and those that own rules name."""
    return tuple(sorted({*CLIENT_COLUMNS, *(name for rule in rules.own for name in rule.names)}))


_OF_CONSUMERS: Final = ("consumer", "share-consumer")


def note_clients(clients: Table, memory: Memory) -> None:
    """Notes the first and the latest push of each instance, and its terminating push."""
    after = pa.scalar(memory.judged_to_us - _BEFORE_US, pa.int64())
    clients = clients.filter(pc.greater_equal(clients["last_seen"].cast(pa.int64()), after)).combine_chunks()
    if not clients.num_rows:
        return
    column = {name: clients[name].combine_chunks() for name in CLIENT_COLUMNS}
    code = memory.registry.instances.codes(*(column[name] for name in CLIENT_COLUMNS[:3]))
    instances = memory.instances
    instances.grow(len(memory.registry.instances))
    first, last = (as_numpy(column[name].cast(pa.int64()), 0) for name in ("first_seen", "last_seen"))
    instances["cluster"][code] = memory.registry.clusters.codes(column["cluster_id"])
    instances["first_us"][code] = first
    instances["latest_us"][code] = last
    ended = as_numpy(column["terminated"], False)
    instances["terminated_us"][code] = np.where(ended, last, 0)
    if EXPECTED_INTERVAL in clients.schema.names:
        expected_s = clients[EXPECTED_INTERVAL].to_numpy() / 1000
        instances["interval_s"][code] = np.maximum(instances["interval_s"][code], expected_s)
    of_consumer = place_in(column["role"], _OF_CONSUMERS) >= 0
    in_group = is_valid(column["group_id"])
    is_java = as_numpy(pc.equal(column["dialect"], "java"), False)
    # Java's producers and admin clients end without a terminating push: for them its absence proves nothing.
    instances["says_when_it_ends"][code] = ~is_java | of_consumer | in_group


def note_window(window: Window, memory: Memory) -> None:
    """Notes the last push of each instance, with its client id, group, version, library and push interval."""
    instances = memory.instances
    instances.grow(len(memory.registry.instances))
    _skip_gaps(window, memory)
    code, seen = window.instance, window.rows.micros("seen_at")
    np.maximum.at(instances["last_us"], code, seen)
    is_new = instances["first_us"][code] == 0
    instances["first_us"][code[is_new]] = seen[is_new]
    instances["cluster"][code], instances["client"][code] = window.cluster, window.client
    instances["group"][code], instances["version"][code] = window.group, window.version
    instances["dialect"][code] = window.dialect
    pushed_s = np.fmax(window.rows.number("push_interval_ms") / 1000, 0)
    instances["interval_s"][code] = np.maximum(pushed_s, instances["pushed_s"][code])
    instances["pushed_s"][code] = pushed_s


def _skip_gaps(window: Window, memory: Memory) -> None:
    """Skips the time since the latest window of each cluster: no push at all arrived, so no client was silent, and
    nothing that was found is over.
    """
    clusters, instances = memory.clusters, memory.instances
    clusters.grow(len(memory.registry.clusters))
    gap_us = np.zeros(len(clusters.to_us), np.int64)
    before_us = clusters.to_us[window.clusters]
    gap_us[window.clusters] = np.where(before_us > 0, np.maximum(window.begin_us - before_us, 0), 0)
    if not gap_us.any():
        return
    has_pushed = np.flatnonzero(instances["last_us"] > 0)
    instances["last_us"][has_pushed] += gap_us[instances["cluster"][has_pushed]]
    of_cluster = {
        memory.registry.clusters.parts(code)[0]: int(gap_us[code]) for code in np.flatnonzero(gap_us).tolist()
    }
    for case in memory.present_cases():
        case.judged_us = min(case.judged_us + of_cluster.get(case.cluster_id, 0), window.begin_us)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def note_groups(window: Window, memory: Memory) -> Table:
    """Notes the beginning of each group's present trend; returns SCHEMA, one row per group of the window."""
    groups = window.offsets
    known: dict[str, list[Any]] = memory.facts.setdefault("group-offsets", {})
    if groups is None:
        return SCHEMA.empty_table()
    rows = list(_rows_of(groups, window, memory, known))
    for name in [name for name, each in known.items() if each[2] < window.end_us - NAMES_KEPT_US]:
        del known[name]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _rows_of(
    groups: SampledGroups, window: Window, memory: Memory, known: dict[str, list[Any]]
) -> Iterator[dict[str, Any]]:
    begin = _EPOCH + timedelta(microseconds=window.begin_us)
    day: date = begin.date()
    members = np.bincount(groups.members.group, minlength=len(groups.codes))
    idle = np.bincount(groups.members.group[groups.members.partitions == 0], minlength=len(groups.codes))
    partitions = np.bincount(groups.group, minlength=len(groups.codes))
    is_known = np.bincount(groups.group, ~np.isnan(groups.partitions.lag), minlength=len(groups.codes)) > 0
    lag, of_trend = (
        groups.sum(groups.partitions.lag),
        [groups.sum(groups.partitions.trend == each) for each in range(6)],
    )
    seconds = np.where(groups.whole.seconds > 0, groups.whole.seconds, np.nan)
    rates = groups.whole.committed / seconds, groups.whole.written / seconds
    for place, (code, trend) in enumerate(zip(groups.codes.tolist(), groups.trend.tolist(), strict=True)):
        cluster, name = memory.registry.groups.parts(code)
        key = f"{cluster}\x1f{name}"
        before = known.get(key)
        is_same = before is not None and before[0] == TRENDS[trend]
        since = before[1] if before is not None and is_same else window.begin_us
        known[key] = [TRENDS[trend], since, window.end_us]
        yield {
            "date": day,
            "window_start": begin,
            "window_s": window.length_s,
            "cluster_id": cluster,
            "group_id": name,
            "state": groups.state[place] or None,
            "members": int(members[place]),
            "idle_members": int(idle[place]),
            "partitions": int(partitions[place]),
            "lag_records": float(lag[place]) if is_known[place] else None,
            "trend": TRENDS[trend],
            "since": _EPOCH + timedelta(microseconds=since),
            "committed_per_s": _number(rates[0][place]),
            "written_per_s": _number(rates[1][place]),
            **{f"{name}_partitions": int(of_trend[each][place]) for each, name in enumerate(TRENDS) if each > MOVING},
            "error": groups.error[place] or None,
        }


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


_SEEN_WITHIN_US: Final = 3_600_000_000


def note_traffic(window: Window, memory: Memory) -> None:
    """Notes the clients that a gateway saw, and the kinds of their requests, for coverage."""
    if window.traffic is None:
        return
    known: dict[str, list[int]] = memory.facts.setdefault("gateway", {})
    for code, kinds in zip(window.traffic.client.tolist(), window.traffic.kinds.tolist(), strict=True):
        name = "\x1f".join(memory.registry.clients.parts(code))
        known[name] = [known.get(name, (0, 0))[0] | kinds, window.end_us]
    for name in [name for name, each in known.items() if each[1] < window.end_us - _SEEN_WITHIN_US]:
        del known[name]


def seen_clients(memory: Memory) -> dict[tuple[str, str], frozenset[str]]:
    """Kinds of requests that a gateway saw in the last hour, by cluster and client id; see KINDS."""
    known: dict[str, list[int]] = memory.facts.get("gateway", {})
    seen = {}
    for name, (kinds, seen_us) in known.items():
        cluster, client = name.split("\x1f", 1)
        if kinds and seen_us > memory.judged_to_us - _SEEN_WITHIN_US:
            seen[cluster, client] = frozenset(each for bit, each in enumerate(KINDS) if kinds >> bit & 1)
    return seen


def traffic_facts(memory: Memory, clients: Collection[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    """Facts for the memory of another judge of these clients (cluster and id of each), so that it has `seen_clients`;
    empty if a gateway saw none of them.
    """
    seen = seen_clients(memory).keys() & clients
    known = memory.facts.get("gateway", {})
    return {"gateway": {"\x1f".join(name): known["\x1f".join(name)] for name in seen}} if seen else {}

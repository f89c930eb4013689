"""Gold: rebalances, consumers and groups: what members of consumer groups have of measures, by window."""

from typing import Final

import numpy as np

from fleetgauge.fleet.arrow import Array, Schema, Table, conformed, pa, pc
from fleetgauge.fleet.measures.merge import merge
from fleetgauge.fleet.measures.rows import (
    KEY,
    LAG_COLUMNS,
    MEMBER,
    ROWS,
    Numbers,
    codes,
    exact_sums,
    filled,
    is_valid,
    numbered,
    one,
    rank_of,
    times,
)
from fleetgauge.fleet.measures.values import VALUE_COLUMNS, Wide
from fleetgauge.fleet.schemas import CONSUMERS, GROUPS, REBALANCES


def rebalances(rows: Table) -> Table:
    """Merged ROWS -> REBALANCES: one row a consumer instance and window that has any of the metrics.

    `rebalances`, `failed_rebalances` and `rebalance_latency_total_ms` are what the totals grew by; a delta that reaches
    back before the subscription is left out, and `gap` says so. The others are the client's own gauges: rates and
    `last_rebalance_seconds_ago` as the latest push that has them.

    >>> columns = "received_at metric_name value delta gap before_subscription dialect client_instance_id"
    >>> total, assigned = (f"org.apache.kafka.consumer.coordinator.{name}" for name in
    ...     ("rebalance.total", "assigned.partitions"))
    >>> points = rows(POINTS, columns, ("12:00:00", total, 9.0, 9.0, False, True, "java", "one"),
    ...     ("12:01:00", total, 2.0, 2.0, False, False, "java", "one"),
    ...     ("12:01:00", assigned, 4.0, None, None, None, "franz-go", "two"))
    >>> found = rebalances(aggregate(points, 300))
    >>> show(found, "client_instance_id pushes rebalances assigned_partitions gap")
    client_instance_id  pushes  rebalances  assigned_partitions  gap
    one                 2       2           -                    yes
    two                 1       -           4                    no
    """
    return _members(rows, "rebalance", REBALANCES)


def consumers(rows: Table) -> Table:
    """Merged ROWS -> CONSUMERS: one row a consumer instance and window that has any of the metrics.

    `lag_records` is the sum over all partitions in the latest push that has a word on them, null once the consumer has
    none; `lag_max_records` is the largest such sum of a push, `lag_partition_max_records` the largest lag of one
    partition. `records_consumed` and `bytes_consumed` are what the totals grew by, without deltas that reach back
    before the subscription. Only Java sends a lag: of other clients it is null and in `unknown`.

    >>> columns = "client_instance_id dialect received_at metric_name topic partition value twin"
    >>> consumer = "org.apache.kafka.consumer"
    >>> lag, idle = f"{consumer}.fetch.manager.records.lag", f"{consumer}.poll.idle.ratio.avg"
    >>> points = rows(POINTS, columns, ("one", "java", "12:00:00", lag, "a.b", 0, 100.0, False),
    ...     ("one", "java", "12:00:00", lag, "a_b", 0, 100.0, True),
    ...     ("one", "java", "12:00:00", lag, "a.b", 1, 20.0, False),
    ...     ("one", "java", "12:01:00", lag, "a.b", 0, 70.0, False),
    ...     ("two", "librdkafka", "12:00:00", idle, None, None, 0.9, False))
    >>> found = consumers(aggregate(points, 300))
    >>> show(found, "client_instance_id lag_records lag_max_records lag_partition_max_records poll_idle_ratio_avg")
    client_instance_id  lag_records  lag_max_records  lag_partition_max_records  poll_idle_ratio_avg
    one                 70           120              100                        -
    two                 -            -                -                          0.9
    """
    return _members(rows, "consumer", CONSUMERS)


def _members(rows: Table, family: str, schema: Schema) -> Table:
    given = Wide(rows)
    chosen = np.flatnonzero(given.count(f"{family}_pushes") > 0)
    at = pa.array(chosen)
    measures = [name for name in schema.names if name in VALUE_COLUMNS]
    columns = {name: given.value(name).take(at) for name in measures}
    columns["pushes"] = pa.array(given.count(f"{family}_pushes")[chosen])
    columns["gap"] = given.gap(family, "gap", "before_subscription").take(at)
    columns["covers_gap"] = given.gap(family, "covers_gap").take(at)
    shares = given.count("share_pushes")[chosen] > 0
    no = np.zeros(len(chosen), np.bool_)
    columns["unknown"] = given.unknown(measures, chosen, np.stack([no, ~shares, shares, no], axis=1))
    return given.table(schema, chosen, columns)


_GROUP: Final = ("cluster_id", "group_id", "window_start")
"""What a row of GROUPS is made by."""
_TOTALS: Final = ("assigned_partitions", "records_consumed", "rebalances")

MEMBER_COLUMNS: Final = tuple(
    name
    for name in ROWS.names
    if name in ("date", "window_s", *KEY, *LAG_COLUMNS, "pushes")
    or name.removesuffix("_at") in (*MEMBER, *_TOTALS)
    or name.removesuffix("_sum").removesuffix("_count") in _TOTALS
)
"""Of ROWS, those that `members` and `groups` read."""


def members(rows: Table) -> Table:
    """MEMBER_COLUMNS of partial ROWS of clients -> the same, merged: those that belong to a group in the window."""
    of_groups = pc.unique(rows["client_instance_id"].filter(pc.is_valid(rows["group_id"])))
    some = rows.filter(pc.is_in(rows["client_instance_id"], value_set=of_groups))
    found = merge([conformed(ROWS, {name: one(some[name]) for name in MEMBER_COLUMNS}, some.num_rows)])
    return found.filter(pc.is_valid(found["group_id"])).select(MEMBER_COLUMNS)


def groups(rows: Table) -> Table:
    """Merged ROWS -> GROUPS: one row a consumer group and window, of the members that are known.

    Each partition counts once, as the latest push of the member that reported it last has it: of one that moved within
    the window two members may. Consumers before 4.0 write dots of topics as underscores, which tells no two topics
    apart here.

    >>> columns = "client_instance_id received_at metric_name topic partition value group_id"
    >>> lag = "org.apache.kafka.consumer.fetch.manager.records.lag"
    >>> points = rows(POINTS, columns, ("one", "12:00:00", lag, "a", 0, 5000.0, "billing"),
    ...     ("one", "12:00:00", lag, "a", 1, 20.0, "billing"), ("two", "12:01:00", lag, "a", 0, 70.0, "billing"))
    >>> show(groups(aggregate(points, 300)), "group_id window_start members lag_records lag_partitions")
    group_id  window_start  members  lag_records  lag_partitions
    billing   12:00:00      2        90           2
    """
    given = Wide(rows)
    is_member = is_valid(given.rows["group_id"]) & given.is_client()
    members = np.flatnonzero(is_member & (given.count("pushes") > 0))
    at = pa.array(members)
    of_members = given.rows.take(at)
    group_of, first, count = numbered(
        [times(of_members["window_start"]), *(codes(of_members[name]) for name in _GROUP[:2])]
    )
    columns = {name: one(of_members[name]).take(pa.array(first)) for name in ("date", "window_s", *_GROUP)}
    columns["members"] = pa.array(np.bincount(group_of, minlength=count))
    columns["lag_records"], columns["lag_partitions"] = _lag(of_members, group_of, count)
    for name in _TOTALS:
        value = given.value(name).take(at)
        known = np.bincount(group_of, is_valid(value), minlength=count)
        columns[name] = pa.array(exact_sums(filled(value, 0.0), group_of, count), mask=known == 0)
    return conformed(GROUPS, columns, count)


def _lag(members: Table, group_of: Numbers, count: int) -> tuple[Array, Array]:
    """Of each group the sum over its partitions, null without any, and how many they are."""
    lists = one(members["lag_partitions"])
    member = filled(pc.list_parent_indices(lists), 0)
    of_partition = lists.flatten()
    lag = filled(of_partition.field("lag"), 0.0)
    topic = codes(pc.replace_substring(of_partition.field("topic"), ".", "_"))
    partition = filled(of_partition.field("partition"), -1).astype(np.int64)
    reported_at, push = times(members["lag_at"])[member], rank_of(members["lag_push_id"])[member]
    order = np.lexsort((lag, push, reported_at, partition, topic, group_of[member]))
    key = np.stack([group_of[member], topic, partition], axis=1)[order]
    is_last = np.ones(len(order), np.bool_)
    is_last[:-1] = (key[1:] != key[:-1]).any(axis=1)
    last = order[is_last]
    group = group_of[member[last]]
    partitions = np.bincount(group, minlength=count)
    return pa.array(exact_sums(lag[last], group, count), mask=partitions == 0), pa.array(partitions)

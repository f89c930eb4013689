"""Gold: inventory, who is in the fleet. Plain functions on Arrow, and their way into Spark."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fleet.decode.arrow import Array, Table, pa, pc
from fleet.measures.rows import Numbers, codes, filled, numbered, one, rank_of, time_column, times
from fleet.schemas import ACTIVITY, INSTANCE, INVENTORY, PUSHES, TIME, conform
from telemetry.catalogue.standard_metrics import ROLE_PREFIXES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LATEST: Final = (
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
    "push_interval_ms",
    "terminated",
)
_COUNTS: Final = ("pushes", "heartbeats", "points")

SEEN: Final = pa.schema(
    [*ACTIVITY, ("last_push_id", pa.string()), ("group_seen_at", TIME), ("group_push_id", pa.string())]
)
"""ACTIVITY that can be merged: with the push that said the latest, and the one that named the group."""

_OF_PUSH: Final = [
    name for name in PUSHES.names if name in SEEN.names or name in ("push_id", "received_at", "terminating")
] + ["receiver_node_id", "heartbeat"]


def seen(pushes: Table) -> Table:
    """Good rows of COUNTED, or PUSHES -> SEEN, one row a client instance and day of receipt."""
    rows = pushes.num_rows
    received_at, push_id = pushes["received_at"], pushes["push_id"]
    is_named = pc.is_valid(pushes["group_id"])
    nodes = one(pushes["receiver_node_id"])
    ends = np.cumsum(np.append(0, nodes.is_valid().to_numpy(zero_copy_only=False).astype(np.int32)), dtype=np.int32)
    own = {
        "date": one(received_at).cast(pa.timestamp("us")).cast(pa.date32(), safe=False),
        "terminated": pushes["terminating"],
        "receiver_node_ids": pa.ListArray.from_arrays(pa.array(ends), nodes.drop_null()),
        "pushes": pa.array(np.ones(rows, np.int64)),
        "heartbeats": pushes["heartbeat"].cast(pa.int64()),
        "first_seen": received_at,
        "last_seen": received_at,
        "last_push_id": push_id,
        "group_seen_at": pc.if_else(is_named, received_at, None),
        "group_push_id": pc.if_else(is_named, push_id, None),
    }
    columns = [own[field.name] if field.name in own else pushes[field.name] for field in SEEN]
    return merged(pa.table([one(column) for column in columns], schema=SEEN), ("date", *INSTANCE))


def merged(rows: Table, by: Sequence[str] = INSTANCE) -> Table:
    """SEEN -> SEEN: one row for each value of these columns."""
    if not rows.num_rows:
        return rows
    group_of, _, count = numbered([codes(rows[name]) for name in by])
    order = np.lexsort((rank_of(rows["last_push_id"]), times(rows["last_seen"]), group_of))
    begins = np.searchsorted(group_of[order], np.arange(count))
    ends = np.append(begins[1:], len(order)) - 1
    by_group = np.lexsort((rank_of(rows["group_push_id"]), times(rows["group_seen_at"]), group_of))
    found: dict[str, Any] = {}
    for names, last in (
        (("date", *INSTANCE, *_LATEST, "last_seen", "last_push_id"), order[ends]),
        (("group_id", "group_seen_at", "group_push_id"), by_group[ends]),
    ):
        found |= {name: one(rows[name]).take(pa.array(last)) for name in names}
    for name in _COUNTS:
        found[name] = pa.array(np.add.reduceat(filled(rows[name], 0)[order], begins))
    found["first_seen"] = time_column(np.minimum.reduceat(times(rows["first_seen"])[order], begins))
    found["role"] = _role_of_all(one(rows["role"]), order, begins)
    found["receiver_node_ids"] = _distinct(one(rows["receiver_node_ids"]), group_of, count)
    return pa.table([found[name].cast(SEEN.field(name).type) for name in SEEN.names], schema=SEEN)


def _role_of_all(roles: Array, order: Numbers, begins: Numbers) -> Array:
    """`silver.dialect.role_of_all` of each group."""
    known = pa.array(list(ROLE_PREFIXES), pa.string())
    last = np.maximum.reduceat(filled(pc.index_in(roles, value_set=known), -1)[order], begins)
    return known.take(pa.array(last, mask=last < 0))


def _distinct(lists: Array, group_of: Numbers, count: int) -> Array:
    """The distinct numbers in the lists of each group, in their order."""
    range_ = 2**32
    numbers = pc.list_flatten(lists).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 2**31
    groups = group_of[pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)]
    found = np.unique(groups * range_ + numbers)
    offsets = np.searchsorted(found, np.arange(count + 1) * range_).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array((found % range_ - 2**31).astype(np.int32)))


def inventory(rows: Table) -> Table:
    """SEEN of whole clients -> INVENTORY: one row a client instance; `state` is null.

    Client id, software, address, port and interval are those of its latest push, since clients change connections; the
    group is that of its latest push that names one, the role as in CLIENTS. `terminated` says that its latest push was
    a terminating one: the client closed in order.

    >>> columns = "client_instance_id client_id received_at points heartbeat terminating"
    >>> pushes = rows(PUSHES, columns, ("one", "billing", "12:00:00", 110, False, False),
    ...     ("one", "billing", "12:01:00", 0, True, True), ("two", "audit", "12:01:00", 10, False, False))
    >>> show(inventory(seen(pushes)), "client_instance_id client_id pushes heartbeats points last_seen terminated")
    client_instance_id  client_id  pushes  heartbeats  points  last_seen  terminated
    one                 billing    2       1           110     12:01:00   yes
    two                 audit      1       0           10      12:01:00   no
    """
    found = merged(rows)
    columns = [
        found[field.name].cast(field.type) if field.name in found.schema.names else pa.nulls(len(found), field.type)
        for field in INVENTORY
    ]
    return pa.table(columns, schema=INVENTORY)


def by_day(pushes: "DataFrame") -> "DataFrame":
    """PUSHES -> ACTIVITY: the inventory of each day.

    >>> columns = "client_instance_id received_at points heartbeat terminating"
    >>> pushes = table(spark, PUSHES, columns, ("one", "12:00:00", 110, False, False),
    ...     ("one", "12:01:00", 0, True, True))
    >>> show(by_day(pushes), "date client_instance_id pushes heartbeats points terminated")
    date        client_instance_id  pushes  heartbeats  points  terminated
    2026-03-01  one                 2       1           110     yes
    """
    from fleet.gold import frames

    narrow = conform(pushes, PUSHES).select(*_OF_PUSH)
    return frames.overall(narrow, _activity, ACTIVITY)


def total(activity: "DataFrame", now: datetime) -> "DataFrame":
    """ACTIVITY -> INVENTORY, `state` judged at `now` as in CLIENTS.

    >>> from datetime import UTC, date
    >>> columns = "date client_instance_id pushes first_seen last_seen terminated"
    >>> days = table(spark, ACTIVITY, columns, (date(2026, 3, 1), "one", 2, "12:00:00", "12:01:00", False))
    >>> show(total(days, datetime(2026, 3, 1, 12, 2, tzinfo=UTC)), "client_instance_id pushes last_seen state")
    client_instance_id  pushes  last_seen  state
    one                 2       12:01:00   live
    """
    from fleet.gold import frames
    from fleet.silver.clients import state

    found = frames.overall(conform(activity, ACTIVITY), _inventory_of_days, INVENTORY)
    return conform(found.withColumn("state", state(now)), INVENTORY)


def _activity(pushes: Table) -> Table:
    return seen(pushes).select(ACTIVITY.names)


def _inventory_of_days(activity: Table) -> Table:
    """A day's row stands for the push that was its last."""
    own = {"last_push_id": pa.nulls(len(activity), pa.string()), "group_push_id": pa.nulls(len(activity), pa.string())}
    own["group_seen_at"] = pc.if_else(pc.is_valid(activity["group_id"]), activity["last_seen"], None)
    columns = [own[name] if name in own else activity[name] for name in SEEN.names]
    return inventory(pa.table([one(column) for column in columns], schema=SEEN))

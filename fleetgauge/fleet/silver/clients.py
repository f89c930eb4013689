"""Silver: clients, their identity and state.

What pushes say of their clients is added up in one form, SEEN, of which CLIENTS, ACTIVITY and INVENTORY are made.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np

from fleetgauge.base.presence import ABSENT_AT_LEAST_MS, ABSENT_INTERVALS, DEFAULT_PUSH_INTERVAL_MS
from fleetgauge.fleet.arrow import Array, Table, conformed, pa, pc
from fleetgauge.fleet.decode.dialects import says_when_it_ends
from fleetgauge.fleet.measures.rows import Groups, Numbers, codes, filled, is_valid, numbered, one, time_column, times
from fleetgauge.fleet.schemas import ACTIVITY, CLIENTS, INSTANCE, PUSHES, SENDER, TIME
from fleetgauge.telemetry.catalogue.dialects import library_of
from fleetgauge.telemetry.catalogue.standard_metrics import ROLE_PREFIXES

_COUNTS: Final = ("pushes", "heartbeats", "points")
_SENDER: Final = pa.struct(list(SENDER))

SEEN: Final = pa.schema(
    [
        *ACTIVITY,
        ("last_push_id", pa.string()),
        ("group_seen_at", TIME),
        ("group_push_id", pa.string()),
        ("sender", _SENDER),
        ("sender_seen_at", TIME),
        ("sender_push_id", pa.string()),
    ]
)
"""ACTIVITY in a form that can be merged: with the push of the latest values, the latest one that names a group, and the
latest one with labels, these as `sender`.
"""

_IN_BOTH: Final = [name for name in PUSHES.names if name in SEEN.names or name in SENDER.names]
SEEN_OF: Final = (*_IN_BOTH, "push_id", "received_at", "terminating", "receiver_node_id", "heartbeat")
"""The columns of PUSHES that `seen` reads."""


def seen(pushes: Table) -> Table:
    """Good rows of COUNTED, or PUSHES -> SEEN, one row a client instance and day of receipt."""
    rows = pushes.num_rows
    received_at, push_id = pushes["received_at"], pushes["push_id"]
    sender = pa.StructArray.from_arrays([one(pushes[name]) for name in SENDER.names], fields=list(SENDER))
    says_more = pc.is_valid(pc.coalesce(*(one(pushes[name]) for name in SENDER.names)))
    is_named = pc.is_valid(pushes["group_id"])
    nodes = one(pushes["receiver_node_id"])
    ends = np.cumsum(np.append(0, is_valid(nodes).astype(np.int32)), dtype=np.int32)
    own = {
        "date": one(received_at).cast(pa.timestamp("us")).cast(pa.date32(), safe=False),
        "terminated": pushes["terminating"],
        "receiver_node_ids": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), nodes.drop_null()),
        "pushes": pa.array(np.ones(rows, np.int64)),
        "heartbeats": pushes["heartbeat"].cast(pa.int64()),
        "first_seen": received_at,
        "last_seen": received_at,
        "last_push_id": push_id,
        "group_seen_at": pc.if_else(is_named, received_at, None),
        "group_push_id": pc.if_else(is_named, push_id, None),
        "sender": sender,
        "sender_seen_at": pc.if_else(says_more, received_at, None),
        "sender_push_id": pc.if_else(says_more, push_id, None),
    }
    columns = [own[field.name] if field.name in own else pushes[field.name] for field in SEEN]
    return merged(pa.table([one(column) for column in columns], schema=SEEN), ("date", *INSTANCE))


_GROUP: Final = ("group_id", "group_seen_at", "group_push_id")
_LABELS: Final = ("sender", "sender_seen_at", "sender_push_id")
_OWN_RULE: Final = (*_COUNTS, *_GROUP, *_LABELS, "first_seen", "role", "receiver_node_ids")
_LAST: Final = tuple(name for name in SEEN.names if name not in _OWN_RULE)


def merged(rows: Table, by: Sequence[str] = INSTANCE) -> Table:
    """SEEN -> SEEN: one row per value of these columns.

    What came last counts, and of two of the same microsecond that of the greater push id: so it is the same in whatever
    order and however often rows are merged, but for counts.
    """
    if not rows.num_rows:
        return rows
    group_of, _, count = numbered([codes(rows[name]) for name in by])
    groups = Groups.by(group_of, count)
    columns: dict[str, Any] = {}
    for names, at, push_id in (
        (_LAST, "last_seen", "last_push_id"),
        (_GROUP, "group_seen_at", "group_push_id"),
        (_LABELS, "sender_seen_at", "sender_push_id"),
    ):
        latest = pa.array(groups.latest(times(rows[at]), one(rows[push_id])))
        columns |= {name: one(rows[name]).take(latest) for name in names}
    columns |= {name: pa.array(groups.sum(filled(rows[name], 0))) for name in _COUNTS}
    columns["first_seen"] = time_column(-groups.top(-times(rows["first_seen"])))
    columns["role"] = _role_of_all(one(rows["role"]), groups)
    columns["receiver_node_ids"] = _distinct(one(rows["receiver_node_ids"]), group_of, count)
    return conformed(SEEN, columns, count)


def _role_of_all(roles: Array, groups: Groups) -> Array:
    """The role that all pushes of a client give together: the last of ROLE_PREFIXES that any of them has.

    So it is the same whichever comes last: franz-go leaves points of 0 out, and sends different metrics each time.
    """
    known = pa.array(list(ROLE_PREFIXES), pa.string())
    last = groups.top(filled(pc.index_in(roles, value_set=known), -1))
    places: Array = pa.array(last, mask=last < 0)
    return known.take(places)


def _distinct(lists: Array, group_of: Numbers, count: int) -> Array:
    """Distinct numbers in the lists of each group, sorted."""
    range_ = 2**32
    numbers = filled(pc.list_flatten(lists), -1).astype(np.int64) + 2**31
    groups = group_of[filled(pc.list_parent_indices(lists), 0)]
    distinct = np.unique(groups * range_ + numbers)
    offsets = np.searchsorted(distinct, np.arange(count + 1) * range_).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(distinct % range_ - 2**31, pa.int32()))


def clients(new: Table, known: Table, now: datetime) -> Table:
    """SEEN, and the CLIENTS of earlier runs -> CLIENTS.

    Minima, maxima and what came last alone: pushes that were seen before change nothing, however often they come. What
    is counted is in `gold.inventory`.

    Args:
        new: of one run.
        known: all of these clients that were known before.
        now: the time that `state` is judged at, with its time zone; for tables that come out the same whenever a run is
            repeated, the time up to which pushes were read.

    >>> from datetime import UTC
    >>> columns = "client_instance_id client_id received_at group_id role terminating"
    >>> pushes = rows(PUSHES, columns, ("one", "billing", "12:00:00", "invoices", "consumer", False),
    ...     ("two", "audit", "12:01:00", "auditors", "consumer", False),
    ...     ("four", "shop", "12:01:00", None, "producer", False))
    >>> more = rows(PUSHES, columns, ("one", "billing", "12:09:00", None, None, False),
    ...     ("three", "orders", "12:05:00", None, None, True))
    >>> known = clients(seen(pushes), CLIENTS.empty_table(), datetime(2026, 3, 1, 12, 2, tzinfo=UTC))
    >>> known = clients(seen(more), known, datetime(2026, 3, 1, 12, 10, tzinfo=UTC))
    >>> show(known, "client_instance_id client_id group_id role first_seen last_seen state")
    client_instance_id  client_id  group_id  role      first_seen  last_seen  state
    four                shop       -         producer  12:01:00    12:01:00   gone
    one                 billing    invoices  consumer  12:00:00    12:09:00   live
    three               orders     -         -         12:05:00    12:05:00   ended
    two                 audit      auditors  consumer  12:01:00    12:01:00   silent
    """
    labels = pa.StructArray.from_arrays([one(known[name]) for name in SENDER.names], fields=list(SENDER))
    names = [name for name in SEEN.names if name in known.schema.names and name not in SENDER.names]
    before = conformed(SEEN, {name: one(known[name]) for name in names} | {"sender": labels}, known.num_rows)
    rows = merged(pa.concat_tables([new, before]))
    columns = {name: one(rows[name]) for name in CLIENTS.names if name in rows.schema.names}
    columns |= {name: pc.struct_field(one(rows["sender"]), name) for name in SENDER.names}
    columns["dialect"] = _by_kind([rows[name] for name in _SOFTWARE], library_of, pa.string())
    return with_state(conformed(CLIENTS, columns, rows.num_rows), now)


_SOFTWARE: Final = ("client_software_name", "client_software_version")


def with_state(rows: Table, now: datetime) -> Table:
    """CLIENTS, or INVENTORY, with `state` as it is at `now`: `ended`, `gone`, `silent` or `live`.

    A client is quiet three intervals after its latest push, and a minute at least. A node forgets an instance after as
    long (see `telemetry`), so that both say the same of it.
    """
    interval_ms = filled(rows["push_interval_ms"], DEFAULT_PUSH_INTERVAL_MS).astype(np.int64)
    silent_after_us = 1000 * np.maximum(ABSENT_AT_LEAST_MS, ABSENT_INTERVALS * interval_ms)
    now_us = pa.scalar(now, TIME).cast(pa.int64()).as_py()
    is_quiet = now_us - times(rows["last_seen"]) >= silent_after_us
    kinds = [*(rows[name] for name in (*_SOFTWARE, "role")), pc.is_valid(rows["group_id"])]
    says_so = _by_kind(kinds, _says_when_it_ends, pa.bool_()).to_numpy(zero_copy_only=False)
    has_ended = filled(rows["terminated"], False)
    state = np.select([has_ended, is_quiet & says_so, is_quiet], ["ended", "silent", "gone"], "live")
    at = rows.schema.get_field_index("state")
    return rows.set_column(at, rows.schema.field(at), pa.array(state, pa.string()))


def _says_when_it_ends(name: str | None, version: str | None, role: str | None, has_group: bool) -> bool:
    return says_when_it_ends(library_of(name, version), role, "" if has_group else None)


def _by_kind(columns: Sequence[Array], function: Callable[..., Any], of_type: Any) -> Array:
    """Results of a function for each row, called once for equal rows."""
    kind_of, first, _ = numbered([codes(column) for column in columns])
    kinds = zip(*(one(column).take(pa.array(first)).to_pylist() for column in columns), strict=True)
    return pa.array([function(*kind) for kind in kinds], of_type).take(pa.array(kind_of))

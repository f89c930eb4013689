"""Gold: inventory, who is in the fleet."""

from fleetgauge.fleet.arrow import Table, conformed, pc
from fleetgauge.fleet.measures.rows import one
from fleetgauge.fleet.schemas import ACTIVITY, INVENTORY
from fleetgauge.fleet.silver.clients import SEEN, merged


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
    merged_rows = merged(rows)
    names = [name for name in INVENTORY.names if name in SEEN.names]
    return conformed(INVENTORY, {name: one(merged_rows[name]) for name in names}, merged_rows.num_rows)


def activity(rows: Table) -> Table:
    """SEEN as `seen` gives it -> ACTIVITY: the inventory of each day.

    >>> columns = "client_instance_id received_at points heartbeat terminating"
    >>> pushes = rows(PUSHES, columns, ("one", "12:00:00", 110, False, False), ("one", "12:01:00", 0, True, True))
    >>> show(activity(seen(pushes)), "date client_instance_id pushes heartbeats points terminated")
    date        client_instance_id  pushes  heartbeats  points  terminated
    2026-03-01  one                 2       1           110     yes
    """
    return rows.select(ACTIVITY.names)


def seen_by_day(days: Table) -> Table:
    """ACTIVITY -> SEEN: a day's row is used as the last push of that day."""
    columns = {name: one(days[name]) for name in ACTIVITY.names}
    columns["group_seen_at"] = pc.if_else(pc.is_valid(columns["group_id"]), columns["last_seen"], None)
    return conformed(SEEN, columns, days.num_rows)

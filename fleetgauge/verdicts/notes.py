"""What the judge notes of client instances before it judges a window: when each was seen, and how it ended."""

from typing import Final

import numpy as np

from fleetgauge.verdicts.arrow import Table, pa, pc
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.rules import Rules
from fleetgauge.verdicts.window import Window, place_in

CLIENT_COLUMNS: Final = (
    "cluster_id", "principal", "client_instance_id", "dialect", "role", "group_id", "first_seen", "last_seen",
    "terminated",
)  # fmt: skip
"""The columns of CLIENTS that are read of all clients."""

EXPECTED_INTERVAL: Final = "expected_interval_ms"
"""Beside them, where there is more to know than pushes say: the interval that a client is waited for by [ms]."""

_BEFORE_US: Final = 86_400_000_000
"""Clients that were seen last so long before what is judged are not looked at [us]."""


def client_columns(rules: Rules) -> tuple[str, ...]:
    """The columns of CLIENTS that are read: those, and what own rules name."""
    return tuple(sorted({*CLIENT_COLUMNS, *(name for rule in rules.own for name in rule.names)}))


_OF_CONSUMERS: Final = ("consumer", "share-consumer")


def note_clients(clients: Table, memory: Memory) -> None:
    """Takes in when instances came, and whether they ended with a terminating push."""
    after = pa.scalar(memory.judged_to_us - _BEFORE_US, pa.int64())
    clients = clients.filter(pc.greater_equal(clients["last_seen"].cast(pa.int64()), after)).combine_chunks()
    if not clients.num_rows:
        return
    column = {name: clients[name].combine_chunks() for name in CLIENT_COLUMNS}
    code = memory.registry.instances.codes(*(column[name] for name in CLIENT_COLUMNS[:3]))
    instances = memory.instances
    instances.grow(len(memory.registry.instances))
    first, last = (
        column[name].cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        for name in ("first_seen", "last_seen")
    )
    instances["first_us"][code] = first
    instances["latest_us"][code] = last
    ended = column["terminated"].fill_null(False).to_numpy(zero_copy_only=False)
    instances["terminated_us"][code] = np.where(ended, last, 0)
    if EXPECTED_INTERVAL in clients.schema.names:
        expected_s = clients[EXPECTED_INTERVAL].to_numpy() / 1000
        instances["interval_s"][code] = np.maximum(instances["interval_s"][code], expected_s)
    of_consumer = place_in(column["role"], _OF_CONSUMERS) >= 0
    in_group = pc.is_valid(column["group_id"]).to_numpy(zero_copy_only=False)
    is_java = pc.equal(column["dialect"], "java").fill_null(False).to_numpy(zero_copy_only=False)
    # Java's producers and admin clients end without a terminating push: its absence says nothing of them.
    instances["says_when_it_ends"][code] = ~is_java | of_consumer | in_group
    # franz-go leaves zeros out; a consumer's fetches are never 0, since they go on without data.
    is_franz_go = pc.equal(column["dialect"], "franz-go").fill_null(False).to_numpy(zero_copy_only=False)
    instances["may_say_nothing"][code] = is_franz_go & ~of_consumer & ~in_group


def note_window(window: Window, memory: Memory) -> None:
    """Takes in when instances pushed last."""
    instances = memory.instances
    instances.grow(len(memory.registry.instances))
    end_us = window.begin_us if len(window) else window.end_us
    if memory.judged_to_us and end_us > memory.judged_to_us:  # nothing was received at all: nobody was silent
        instances["last_us"][instances["last_us"] > 0] += end_us - memory.judged_to_us
    code, seen = window.instance, window.rows.micros("seen_at")
    np.maximum.at(instances["last_us"], code, seen)
    is_new = instances["first_us"][code] == 0
    instances["first_us"][code[is_new]] = seen[is_new]
    instances["client"][code] = window.client
    instances["group"][code], instances["version"][code] = window.group, window.version
    instances["dialect"][code] = window.dialect
    pushed_s = np.nan_to_num(window.rows.number("push_interval_ms") / 1000)
    instances["interval_s"][code] = np.maximum(pushed_s, instances["pushed_s"][code])
    instances["pushed_s"][code] = pushed_s

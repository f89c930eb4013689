"""What pushes say of their clients, added up in any order; and when clients are silent."""

from datetime import UTC, datetime, timedelta
from itertools import product
from random import Random
from typing import Any

import pytest

from fleetgauge.fleet.arrow import Table, pa
from fleetgauge.fleet.decode.dialects import says_when_it_ends
from fleetgauge.fleet.gold.inventory import inventory, seen_by_day
from fleetgauge.fleet.schemas import ACTIVITY, CLIENTS, INVENTORY, PUSHES
from fleetgauge.fleet.silver.clients import SEEN, clients, merged, seen, with_state
from fleetgauge.telemetry.catalogue.dialects import library_of
from fleetgauge.telemetry.catalogue.standard_metrics import ROLE_PREFIXES
from fleetgauge.testkit.small_tables import rows

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOBODY = CLIENTS.empty_table()


def states(pushes: Table, after: timedelta) -> dict[str, str]:
    """As both tables have them."""
    found = clients(seen(pushes), NOBODY, NOON + after), with_state(inventory(seen(pushes)), NOON + after)
    of_clients, of_inventory = ({row["client_instance_id"]: row["state"] for row in each.to_pylist()} for each in found)
    assert of_clients == of_inventory
    return of_clients


def test_a_client_is_silent_after_three_intervals_and_a_minute_at_least() -> None:
    intervals = {"quick": 1_000, "usual": 60_000, "unknown": None}
    columns = "client_instance_id received_at role push_interval_ms"
    pushes = rows(PUSHES, columns, *((name, "12:00:00", "consumer", each) for name, each in intervals.items()))

    def silent(after_s: int) -> set[str]:
        return {name for name, state in states(pushes, timedelta(seconds=after_s)).items() if state == "silent"}

    assert silent(59) == set()
    assert silent(60) == silent(179) == {"quick"}
    assert silent(180) == silent(899) == {"quick", "usual"}
    assert silent(900) == {"quick", "usual", "unknown"}


@pytest.mark.parametrize("by_group", [None, "billing"])
def test_a_quiet_client_is_silent_if_its_kind_says_when_it_ends(by_group: str | None) -> None:
    kinds = list(product(("apache-kafka-java", "kgo", "librdkafka", "other", None), (*ROLE_PREFIXES, None)))
    columns = "client_instance_id received_at client_software_name role group_id"
    given = [(f"{name} {role}", "12:00:00", name, role, by_group) for name, role in kinds]
    expected = {
        f"{name} {role}": "silent" if says_when_it_ends(library_of(name, None), role, by_group) else "gone"
        for name, role in kinds
    }
    assert states(rows(PUSHES, columns, *given), timedelta(hours=1)) == expected
    assert set(expected.values()) == ({"silent", "gone"} if by_group is None else {"silent"})


def test_a_client_that_said_goodbye_has_ended_until_it_pushes_again() -> None:
    columns = "client_instance_id received_at terminating"
    goodbye = [("one", "12:00:00", False), ("one", "12:01:00", True)]
    assert states(rows(PUSHES, columns, *goodbye), timedelta(hours=1)) == {"one": "ended"}
    back = rows(PUSHES, columns, *goodbye, ("one", "12:02:00", False))
    assert states(back, timedelta(minutes=2)) == {"one": "live"}


def some_pushes(chance: Random) -> Table:
    """Of three clients on three days, with times and labels that coincide."""
    given: list[tuple[Any, ...]] = []
    for number in range(60):
        at = NOON + timedelta(days=chance.randrange(3), minutes=chance.randrange(5))
        labels = [chance.choice((None, f"{name}-{chance.randrange(3)}")) for name in ("group", "rack")]
        role, node = chance.choice((None, *ROLE_PREFIXES)), chance.choice((None, -1, 1, 2))
        given.append((chance.choice("abc"), f"{number:032d}", at, *labels, role, node, number, chance.random() < 0.2))
    columns = "client_instance_id push_id received_at group_id client_rack role receiver_node_id points terminating"
    return rows(PUSHES, columns, *given)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_clients_and_inventory_are_the_same_in_whatever_order_pushes_are_added_up(seed: int) -> None:
    chance = Random(seed)
    pushes = some_pushes(chance)
    order = chance.sample(range(len(pushes)), len(pushes))
    shuffled, cut = pushes.take(order), chance.randrange(len(pushes))
    one, two = shuffled.slice(0, cut), shuffled.slice(cut)
    now = NOON + timedelta(days=4)
    at_once = clients(seen(pushes), NOBODY, now)
    before = clients(seen(one), NOBODY, NOON)
    assert listed(clients(seen(two), before, now)) == listed(at_once)
    assert listed(clients(seen(pushes), before, now)) == listed(at_once), "seen before: nothing changes"
    parts = pa.concat_tables([merged(seen(one)), seen(two)])
    assert listed(inventory(parts)) == listed(inventory(seen(pushes)))
    by_day = merged(pa.concat_tables([seen(one), seen(two)]), ("date", "client_instance_id")).select(ACTIVITY.names)
    assert listed(inventory(seen_by_day(by_day))) == listed(inventory(seen(pushes))), "days are added up"


def listed(table: Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=repr)


def test_labels_are_those_of_the_latest_push_that_has_any_and_the_group_of_the_one_that_names_it() -> None:
    columns = "received_at group_id client_rack role"
    pushes = rows(
        PUSHES,
        columns,
        ("12:00:00", "billing", "a", "consumer"),
        ("12:01:00", None, "b", "producer"),
        ("12:02:00", None, None, None),
    )
    (client,) = clients(seen(pushes), NOBODY, NOON).to_pylist()
    assert (client["group_id"], client["client_rack"], client["sender_seen_at"]) == (
        None,
        "b",
        NOON + timedelta(minutes=1),
    )
    (row,) = inventory(seen(pushes)).to_pylist()
    assert (row["group_id"], row["role"], client["role"]) == ("billing", "consumer", "consumer")


@pytest.mark.parametrize(("made", "schema"), [(seen(PUSHES.empty_table()), SEEN), (NOBODY, CLIENTS)])
def test_no_pushes_make_no_clients(made: Table, schema: Any) -> None:
    assert (made.num_rows, made.schema) == (0, schema)
    assert clients(SEEN.empty_table(), NOBODY, NOON).schema == CLIENTS
    assert with_state(inventory(SEEN.empty_table()), NOON).schema == INVENTORY

"""Instances with links to a node: all of a small fleet, and a part of a large one that says of how many it is."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from fleetgauge.fleet.arrow import Table, to_list
from fleetgauge.fleet.explain import links
from fleetgauge.fleet.explain.links import Known, Linked, linked, linked_of_client
from fleetgauge.fleet.measures.aggregate import aggregate
from fleetgauge.fleet.schemas import CLIENTS, POINTS
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store
from fleetgauge.testkit.small_tables import rows
from fleetgauge.verdicts.arrow import pa
from fleetgauge.verdicts.registry import Registry

NODE = "org.apache.kafka.producer.node.request.latency.avg"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LETTERS = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
COUNT = 640
"""Instances of the large cluster: ten for each first letter of an id."""


def instance(number: int, cluster: str = "large") -> str:
    return f"{LETTERS[number % len(LETTERS)]}{cluster:>11}{number:010d}"


def is_linked(number: int, node: int) -> bool:
    """Every client has links to node 1, every second one to node 2, one in 160 to node 3."""
    return number % {1: 1, 2: 2, 3: 160}[node] == 0


CLIENTS_OF = {"large": range(COUNT), "small": range(20)}


@pytest.fixture
def clients() -> Table:
    given = [
        (cluster, instance(number, cluster), f"app-{number % 8}", NOON, "live")
        for cluster, numbers in CLIENTS_OF.items()
        for number in numbers
    ]
    return rows(CLIENTS, "cluster_id client_instance_id client_id last_seen state", *given)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """One window of two clusters; the small one has nodes 1 and 2."""
    store = Store(str(tmp_path / "tables"))
    given = [
        (cluster, name, f"{name[-9:]}{node:023d}", NOON, 0, NODE, node, 5.0, None)
        for cluster, numbers in CLIENTS_OF.items()
        for number in numbers
        for node in ((1, 2, 3) if cluster == "large" else (1, 2))
        if is_linked(number, node)
        for name in [instance(number, cluster)]
    ]
    columns = "cluster_id client_instance_id push_id received_at point_index metric_name node_id value delta"
    with store.files_of(catalog.WINDOWS).open() as writer:
        for batch in aggregate(rows(POINTS, columns, *given), 300).to_batches():
            writer.write(batch)
        writer.finish()
        store.change(catalog.WINDOWS, add=writer.take_finished())
    return store


@pytest.fixture
def is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts more than 100 wide rows as many: then an eighth of the instances is looked at first, if these are 80."""
    monkeypatch.setattr(links, "_ROWS_AT_FIRST", 100)


def known(store: Store, *nodes: tuple[str, int]) -> Known:
    registry = Registry()
    if nodes:
        registry.nodes.codes(
            *(pa.array(each) for each in zip(*((name, str(node)) for name, node in nodes), strict=True))
        )
    return Known(store=store, windows=store.snapshot(catalog.WINDOWS), registry=registry, begin=NOON)


def of_large(clients: Table) -> Table:
    return clients.filter(pa.array(np.arange(clients.num_rows) < COUNT))


def numbers(found: Linked) -> list[int]:
    return sorted(int(name[-10:]) for name in to_list(found.clients["client_instance_id"]))


def test_in_a_small_fleet_all_instances_with_links_are_found(store: Store, clients: Table) -> None:
    found = {each.cluster_id: each for each in linked(known(store, ("large", 2)), clients, 2)}
    assert numbers(found["large"]) == list(range(0, COUNT, 2))
    assert numbers(found["small"]) == list(range(0, 20, 2))
    assert [each.looked_at for each in found.values()] == [None, None]


@pytest.mark.usefixtures("is_large")
def test_in_a_large_fleet_those_of_the_first_ids_are_found_and_counted(store: Store, clients: Table) -> None:
    (found,) = linked(known(store, ("large", 2)), of_large(clients), 2)
    first = [number for number in range(COUNT) if number % len(LETTERS) < len(LETTERS) // 8]
    assert numbers(found) == [number for number in first if number % 2 == 0]
    assert found.looked_at is not None
    assert (found.looked_at.instances, found.looked_at.of) == (len(first), COUNT)
    assert str(found.looked_at) == f"found among {len(first)} of {COUNT}"


@pytest.mark.usefixtures("is_large")
def test_more_are_looked_at_where_a_cluster_that_has_the_node_shows_few(store: Store, clients: Table) -> None:
    found = {each.cluster_id: each for each in linked(known(store, ("large", 1), ("small", 1)), clients, 1)}
    assert {name: len(numbers(each)) for name, each in found.items()} == {"large": COUNT, "small": 20}
    (rare,) = linked(known(store, ("large", 3)), clients, 3)
    assert numbers(rare) == [0, 160, 320, 480]
    assert rare.looked_at is None


@pytest.mark.usefixtures("is_large")
def test_a_node_that_the_judge_does_not_know_is_found_nevertheless(store: Store, clients: Table) -> None:
    assert [numbers(each) for each in linked(known(store), of_large(clients), 3)] == [[0, 160, 320, 480]]
    assert list(linked(known(store), clients, 4)) == []


@pytest.mark.usefixtures("is_large")
def test_the_links_of_one_client_id_are_found_among_all_its_instances(store: Store, clients: Table) -> None:
    of_client = clients.filter(pa.array([name == "app-0" for name in to_list(clients["client_id"])]))
    found = {each.cluster_id: each for each in linked_of_client(known(store), of_client, 3)}
    assert {name: (numbers(each), each.looked_at) for name, each in found.items()} == {
        "large": ([0, 160, 320, 480], None)
    }

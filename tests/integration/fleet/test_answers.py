"""What a run computes of silver tables, over real Delta tables: exactly the touched windows, and all clients."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.fleet.side_by_side import SideBySide

from fleetgauge.fleet.arrow import Schema, Table, to_list
from fleetgauge.fleet.engines.engine import InProcess
from fleetgauge.fleet.engines.sql import answer
from fleetgauge.fleet.gold.latency import latency
from fleetgauge.fleet.gold.members import consumers, groups, rebalances
from fleetgauge.fleet.gold.producers import producers
from fleetgauge.fleet.gold.throttling import throttling
from fleetgauge.fleet.measures.aggregate import aggregate
from fleetgauge.fleet.pipeline.answers import Answers
from fleetgauge.fleet.pipeline.of_clients import OfClients
from fleetgauge.fleet.pipeline.spans import Span, of_windows, whole
from fleetgauge.fleet.schemas import CLIENTS, INSTANCE, POINTS, PUSHES
from fleetgauge.fleet.silver.clients import clients, seen
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store
from fleetgauge.testkit.small_tables import rows

DAY = date(2026, 3, 1)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOW = datetime(2026, 3, 2, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
WINDOW = timedelta(minutes=5)
NODE = "org.apache.kafka.producer.node.request.latency.avg"
THROTTLE = "org.apache.kafka.producer.produce.throttle.time.max"
LAG = "org.apache.kafka.consumer.fetch.manager.records.lag"
ASSIGNED = "org.apache.kafka.consumer.coordinator.assigned.partitions"
IDS = ["one", "-a", "_z", "~", "é", "\U0010ffff", *(f"{letter}{7 * letter}" for letter in "09AMZamz")]
GROUPED = {name: f"group-{number % 3}" for number, name in enumerate(IDS) if number % 4}
WINDOWED = {
    catalog.LATENCY: latency(),
    catalog.THROTTLING: throttling(),
    catalog.PRODUCERS: producers(),
    catalog.REBALANCES: rebalances(),
    catalog.CONSUMERS: consumers(),
    catalog.GROUPS: groups(),
}
ANSWERED = (catalog.CLIENTS, catalog.ACTIVITY, catalog.INVENTORY, catalog.VERSIONS, *WINDOWED)

Row = dict[str, Any]


def pushes(times: Iterable[datetime], ids: Iterable[str] = IDS) -> list[Row]:
    """A push of each client at each time."""
    return [
        {
            "client_instance_id": name,
            "client_id": f"client-{number % 5}",
            "received_at": at,
            "push_id": f"{at.timestamp():022.0f}{IDS.index(name):010d}",
            "role": "consumer" if name in GROUPED else "producer",
            "group_id": GROUPED.get(name) if at.minute % 2 else None,
            "receiver_node_id": at.minute % 3,
            "points": 4,
            "terminating": name == "one" and at.minute == 3,
        }
        for number, name in enumerate(ids)
        for at in times
    ]


class Tables:
    """Silver tables that batches were written to, and what is computed of them.

    Attributes:
        pushed: all pushes.
    """

    def __init__(self, root: Path) -> None:
        self.store = Store(str(root))
        self.pushed: list[Row] = []

    def read(self, *times: datetime, ids: Iterable[str] = IDS, window_s: int = 300) -> list[Span]:
        """Writes a batch of pushes; the windows that it touches."""
        new = pushes(times, ids)
        self.pushed += new
        self.append(catalog.PUSHES, _table(PUSHES, new))
        points = points_of(new)
        self.append(catalog.POINTS, points)
        self.append(catalog.WINDOWS, aggregate(points, window_s))
        starts = to_list(aggregate(points, window_s)["window_start"])
        return of_windows({start.astimezone(UTC) for start in starts}, window_s)

    def append(self, table: catalog.Table, given: Table) -> None:
        with self.store.files_of(table).open() as writer:
            for batch in given.to_batches():
                writer.write(batch)
            writer.finish()
            self.store.change(table, add=writer.take_finished())

    def refresh(
        self,
        spans: Iterable[Span],
        engine: InProcess = InProcess(),  # noqa: B008  # holds nothing
        window_s: int = 300,
        remade: Iterable[date] = (),
        now: datetime = NOW,
    ) -> None:
        """With so few rows at a time that there are several ranges of ids."""
        Answers(self.store, engine, window_s, lambda _: None, rows_at_once=60).refresh(spans, now, set(remade))

    def rows(self, table: catalog.Table) -> list[Row]:
        found = self.store.log(table).rows().select(table.schema.names).to_pylist()
        return sorted(found, key=repr)

    def answers(self) -> dict[str, list[Row]]:
        return {table.name: self.rows(table) for table in ANSWERED}

    def versions(self) -> dict[str, int]:
        return {table.name: self.store.log(table).version() for table in ANSWERED}

    def paths(self, table: catalog.Table) -> set[str]:
        return set(self.store.log(table).paths())


def _table(schema: Schema, given: list[Row]) -> Table:
    names = " ".join(given[0])
    return rows(schema, names, *(tuple(row.values()) for row in given))


def points_of(given: list[Row]) -> Table:
    """Latency, throttling and, of members of a group, lags of each push."""
    columns = ("client_instance_id", "client_id", "received_at", "push_id", "group_id")
    found = []
    for row in given:
        value = float(row["received_at"].minute + IDS.index(row["client_instance_id"]))
        measured: list[tuple[Any, ...]] = [(NODE, 1, None, None, value), (THROTTLE, None, None, None, value)]
        if row["client_instance_id"] in GROUPED:
            measured += [(LAG, None, "t", partition, value) for partition in (0, 1)]
            measured.append((ASSIGNED, None, None, None, 2.0))
        found += [(*(row[name] for name in columns), number, *each) for number, each in enumerate(measured)]
    names = f"{' '.join(columns)} point_index metric_name node_id topic partition value"
    return rows(POINTS, names, *found)


def expected(given: list[Row], window_s: int = 300) -> dict[str, list[Row]]:
    """The tables by window of all these pushes, computed at once."""
    windows = aggregate(points_of(given), window_s)
    found = {table.name: answer(query, windows).to_pylist() for table, query in WINDOWED.items()}
    return {name: sorted(listed, key=repr) for name, listed in found.items()}


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


def test_tables_by_window_are_those_of_all_pushes_however_these_came(tables: Tables) -> None:
    tables.refresh(tables.read(NOON, NOON + MINUTE, NOON + WINDOW))
    tables.refresh(tables.read(NOON + WINDOW + MINUTE, NOON + 3 * WINDOW))
    tables.refresh(tables.read(NOON + 2 * MINUTE, NOON + 24 * 12 * WINDOW))
    assert {table.name: tables.rows(table) for table in WINDOWED} == expected(tables.pushed)


def test_windows_that_are_not_touched_are_not_computed_and_stay(tables: Tables) -> None:
    """Also where they lie in one file with others."""
    tables.refresh(tables.read(*(NOON + number * WINDOW for number in range(6))))
    wrong = tables.read(NOON + 5 * WINDOW + MINUTE, NOON + WINDOW + MINUTE)
    tables.pushed = [row for row in tables.pushed if row["received_at"] != NOON + 5 * WINDOW + MINUTE]
    untouched = NOON + 5 * WINDOW
    tables.refresh([span for span in wrong if span[0] < untouched])
    assert {table.name: tables.rows(table) for table in WINDOWED} == expected(tables.pushed)


def test_a_refresh_again_changes_no_row(tables: Tables) -> None:
    spans = tables.read(NOON, NOON + MINUTE, NOON + 7 * WINDOW)
    tables.refresh(spans)
    once = tables.answers()
    tables.refresh(spans)
    assert tables.answers() == once


def test_each_table_changes_in_one_commit(tables: Tables) -> None:
    """So that a reader sees whole windows at every version."""
    tables.refresh(tables.read(NOON, NOON + WINDOW, NOON + 2 * WINDOW))
    before, was = tables.versions(), tables.answers()
    tables.refresh(tables.read(NOON + MINUTE, NOON + 2 * WINDOW + MINUTE), SideBySide())
    assert tables.versions() == {name: version + 1 for name, version in before.items()}
    earlier = {table.name: sorted(_at(tables.store, table, before[table.name]), key=repr) for table in ANSWERED}
    assert earlier == was


def _at(store: Store, table: catalog.Table, version: int) -> list[Row]:
    opened = store.log(table).open()
    opened.load_as_version(version)
    found: list[Row] = opened.to_pyarrow_table().select(table.schema.names).to_pylist()
    return found


def test_64_parts_make_the_same_tables_as_one(tmp_path: Path) -> None:
    found = []
    for engine in (InProcess(), SideBySide()):
        tables = Tables(tmp_path / f"{engine.parts}")
        tables.refresh(tables.read(NOON, NOON + MINUTE, NOON + 2 * WINDOW), engine)
        tables.refresh(tables.read(NOON + 2 * MINUTE, NOON + 3 * WINDOW), engine)
        found.append(tables.answers())
    assert found[0] == found[1]
    assert len(found[0]["clients"]) == len(IDS)


def test_what_is_kept_of_a_file_is_not_written_again_by_later_runs(tables: Tables) -> None:
    tables.refresh(tables.read(NOON, NOON + WINDOW))
    tables.refresh(tables.read(NOON + WINDOW + MINUTE, NOON + 2 * WINDOW))
    kept = {
        file["path"]
        for file in tables.store.log(catalog.LATENCY).files().to_pylist()
        if file["max.window_start"] < NOON + WINDOW
    }
    tables.refresh(tables.read(NOON + 2 * WINDOW + MINUTE, NOON + 3 * WINDOW))
    assert kept
    assert kept <= tables.paths(catalog.LATENCY)


@pytest.mark.parametrize("engine", [InProcess(), SideBySide()])
def test_a_day_that_has_windows_of_another_length_is_computed_as_a_whole(tables: Tables, engine: InProcess) -> None:
    tables.refresh(tables.read(NOON, NOON + 20 * MINUTE, NOON + timedelta(days=1)))
    spans = tables.read(NOON + 2 * timedelta(hours=1), window_s=3600)
    tables.refresh(spans, engine, window_s=3600)
    of_day = [row for row in tables.pushed if row["received_at"].date() == DAY]
    others = [row for row in tables.pushed if row["received_at"].date() != DAY]
    want = {name: sorted(expected(of_day, 3600)[name] + found, key=repr) for name, found in expected(others).items()}
    assert {table.name: tables.rows(table) for table in WINDOWED} == want
    assert {row["window_s"] for row in tables.rows(catalog.WINDOWS) if row["date"] == DAY} == {3600}


def test_days_that_are_remade_are_those_of_their_points(tables: Tables) -> None:
    """A wide row that no point has made goes, and one that is missing comes."""
    tables.refresh(tables.read(NOON, NOON + timedelta(days=1)))
    good = tables.answers()
    tables.append(catalog.WINDOWS, aggregate(points_of(pushes([NOON + WINDOW])), 300))
    tables.store.log(catalog.WINDOWS).delete("date = '2026-03-01' AND client_instance_id = 'one'")
    tables.refresh([whole(DAY)])
    assert tables.answers() != good
    tables.refresh([whole(DAY)], remade=[DAY, date(2026, 3, 9)])
    assert tables.answers() == good


def test_an_empty_fleet_has_empty_tables(tables: Tables) -> None:
    tables.refresh([])
    assert {name: found for name, found in tables.answers().items() if found} == {}
    assert tables.rows(catalog.METRICS)
    tables.refresh([whole(DAY)], SideBySide())
    assert {name: found for name, found in tables.answers().items() if found} == {}


def test_a_client_without_points_or_group_is_a_client(tables: Tables) -> None:
    heartbeat = pushes([NOON], ["one"])[0] | {
        "points": 0,
        "heartbeat": True,
        "group_id": None,
        "receiver_node_id": None,
    }
    tables.append(catalog.PUSHES, _table(PUSHES, [heartbeat]))
    tables.refresh(of_windows([NOON], 300))
    (row,) = tables.rows(catalog.INVENTORY)
    assert (row["pushes"], row["heartbeats"], row["group_id"], row["receiver_node_ids"]) == (1, 1, None, [])
    assert [tables.rows(table) for table in WINDOWED] == [[]] * len(WINDOWED)


@pytest.mark.parametrize("merged_at", [3, 200_000])
def test_clients_are_added_up_from_run_to_run_and_counts_are_of_all_pushes(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, merged_at: int
) -> None:
    monkeypatch.setattr(OfClients, "merged_at", merged_at)
    times = [NOON, NOON + MINUTE, NOON + timedelta(days=1), NOON + 2 * MINUTE, NOON + 3 * MINUTE]
    for at in times:
        spans = tables.read(at)
        tables.refresh(spans)
        tables.refresh(spans)
    at_once = clients(seen(_table(PUSHES, tables.pushed)), CLIENTS.empty_table(), NOW)
    assert tables.rows(catalog.CLIENTS) == sorted(at_once.to_pylist(), key=repr)
    inventory = {row["client_instance_id"]: row for row in tables.rows(catalog.INVENTORY)}
    assert inventory.keys() == set(IDS)
    for row in inventory.values():
        assert (row["pushes"], row["points"], row["heartbeats"]) == (5, 20, 0)
        assert (row["first_seen"], row["last_seen"]) == (NOON, NOON + timedelta(days=1))
        assert (row["receiver_node_ids"], row["group_id"]) == ([0, 1, 2], GROUPED.get(row["client_instance_id"]))
    states = {row["client_instance_id"]: row["state"] for row in tables.rows(catalog.CLIENTS)}
    assert {name: row["state"] for name, row in inventory.items()} == states


def test_states_of_all_clients_are_judged_anew(tables: Tables) -> None:
    tables.refresh(tables.read(NOON, ids=["one", *GROUPED]), now=NOON + MINUTE)
    assert {row["state"] for row in tables.rows(catalog.CLIENTS)} == {"live"}
    tables.refresh(tables.read(NOON + 3 * WINDOW, ids=["_z"]), now=NOON + 3 * WINDOW)
    for table in (catalog.CLIENTS, catalog.INVENTORY):
        states = {row["client_instance_id"]: row["state"] for row in tables.rows(table)}
        assert (states.pop("_z"), states.pop("one"), set(states.values())) == ("live", "gone", {"silent"})
    (version,) = tables.rows(catalog.VERSIONS)
    assert (version["live"], version["gone"], version["instances"]) == (1, 1, 1 + len(GROUPED))


def test_versions_count_client_ids_exactly(tables: Tables) -> None:
    tables.refresh(tables.read(NOON))
    (version,) = tables.rows(catalog.VERSIONS)
    assert (version["instances"], version["clients"]) == (len(IDS), 5)


def test_one_id_under_two_principals_is_two_clients(tables: Tables) -> None:
    one, two = ([row | {"principal": name} for row in pushes([NOON], ["one"])] for name in ("a", "b"))
    tables.append(catalog.PUSHES, _table(PUSHES, [*one, *two]))
    tables.refresh(of_windows([NOON], 300))
    found = [tuple(row[name] for name in INSTANCE) for row in tables.rows(catalog.CLIENTS)]
    assert found == [("main", "a", "one"), ("main", "b", "one")]


def test_metrics_are_written_once(tables: Tables) -> None:
    tables.refresh([])
    version = tables.store.log(catalog.METRICS).version()
    tables.refresh([])
    assert tables.store.log(catalog.METRICS).version() == version


def test_a_run_that_was_cut_off_between_two_tables_is_mended(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    tables.refresh(tables.read(NOON, NOON + WINDOW))
    spans = tables.read(NOON + MINUTE)
    change = Store.change

    def cut_off(self: Store, table: catalog.Table, *given: Any, **named: Any) -> None:
        if table is catalog.REBALANCES:
            raise KeyboardInterrupt
        change(self, table, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "change", cut_off)
        with pytest.raises(KeyboardInterrupt):
            tables.refresh(spans)
    tables.refresh(spans)
    assert {table.name: tables.rows(table) for table in WINDOWED} == expected(tables.pushed)


def test_a_group_has_its_members_of_all_parts(tables: Tables) -> None:
    tables.refresh(tables.read(NOON + MINUTE), SideBySide())
    found = {row["group_id"]: row["members"] for row in tables.rows(catalog.GROUPS)}
    wanted = list(GROUPED.values())
    assert found == {name: wanted.count(name) for name in set(wanted)}

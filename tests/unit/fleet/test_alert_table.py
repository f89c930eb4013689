"""The table of alerts: each batch of a watch once, and of an alert what was said last."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from fleet.tables import catalog
from fleet.tables.log import Layout, TableLog, Transaction
from fleet.watch.identity import ALERTS
from fleet.watch.table import AlertTable, as_json


def alert(name: str, changed: int, cleared: int | None = None, **given: Any) -> str:
    """JSON, as a watch hands it on; times are seconds after noon."""
    row = dict.fromkeys(ALERTS.names) | {
        "alert_id": name,
        "state": "open" if cleared is None else "cleared",
        "changed_at": time(changed),
        "opened_at": time(0),
        "cleared_at": None if cleared is None else time(cleared),
        "value": 1.5,
        "connections": [{"client_source_address": "10.0.0.1", "client_source_port": 1, "receiver_node_id": None}],
    }
    return as_json(row | given)


def time(seconds: int) -> str:
    return f"2026-03-01T12:00:{seconds:02}.000001Z"


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "alerts")


def write(path: str, alerts: list[str], batch: int, app_id: str = "watch") -> None:
    AlertTable(path, {}).write(alerts, Transaction(app_id=app_id, version=batch))


def rows(path: str) -> dict[str, dict[str, Any]]:
    found = DeltaTable(path).to_pyarrow_table().to_pylist()
    assert len({row["alert_id"] for row in found}) == len(found)
    return {row["alert_id"]: row for row in found}


def states(path: str) -> dict[str, tuple[str, int]]:
    return {name: (row["state"], row["changed_at"].second) for name, row in rows(path).items()}


def test_the_first_alerts_make_the_table_with_every_column(path: str) -> None:
    write(path, [alert("a", 5, text="too slow")], 0)
    (row,) = rows(path).values()
    assert [*row] == ALERTS.names
    assert (row["text"], row["value"], row["topic"], row["cleared_at"]) == ("too slow", 1.5, None, None)
    assert row["changed_at"] == datetime(2026, 3, 1, 12, 0, 5, 1, tzinfo=UTC)
    assert row["connections"] == [
        {"client_source_address": "10.0.0.1", "client_source_port": 1, "receiver_node_id": None}
    ]


def test_an_alert_that_clears_changes_its_row_and_others_stay(path: str) -> None:
    write(path, [alert("a", 1), alert("b", 2)], 0)
    write(path, [alert("a", 9, cleared=9), alert("c", 3)], 1)
    assert states(path) == {"a": ("cleared", 9), "b": ("open", 2), "c": ("open", 3)}


def test_a_batch_that_runs_again_changes_nothing(path: str) -> None:
    write(path, [alert("a", 1)], 3)
    version = DeltaTable(path).version()
    for batch in (3, 2):
        write(path, [alert("a", 8, cleared=8), alert("b", 1)], batch)
    assert (states(path), DeltaTable(path).version()) == ({"a": ("open", 1)}, version)
    write(path, [alert("b", 1)], 3, "another watch")
    assert states(path) == {"a": ("open", 1), "b": ("open", 1)}


def test_a_watch_that_was_cut_off_before_its_first_commit_makes_good_for_it(path: str) -> None:
    TableLog(path, {}).create(catalog.ALERTS.schema, catalog.ALERTS.layout)
    write(path, [alert("a", 1)], 0)
    assert states(path) == {"a": ("open", 1)}


@pytest.mark.parametrize("order", [1, -1])
def test_of_a_batch_the_last_word_on_an_alert_counts(path: str, order: int) -> None:
    said = [alert("a", 1), alert("a", 4), alert("a", 4, cleared=4), alert("b", 4, cleared=3), alert("b", 4, cleared=4)]
    write(path, said[::order], 0)
    assert states(path) == {"a": ("cleared", 4), "b": ("cleared", 4)}
    assert rows(path)["b"]["cleared_at"].second == 4


@pytest.mark.parametrize(
    ("before", "after", "is_newer"),
    [
        ((4, None), (5, None), True),
        ((5, None), (4, None), False),
        ((5, None), (4, 4), False),
        ((5, None), (5, 5), True),
        ((5, 5), (5, None), False),
        ((5, 5), (6, None), True),
        ((5, 5), (5, 4), False),
        ((5, 5), (5, 5), True),
        ((5, None), (5, None), True),
    ],
)
def test_an_alert_that_is_there_is_replaced_by_one_that_is_no_older(
    path: str, before: tuple[int, int | None], after: tuple[int, int | None], is_newer: bool
) -> None:
    write(path, [alert("a", *before, text="before")], 0)
    write(path, [alert("a", *after, text="after")], 1)
    assert rows(path)["a"]["text"] == ("after" if is_newer else "before")


def test_a_table_of_an_earlier_release_takes_alerts_once_its_columns_are_added(path: str) -> None:
    fewer = pa.schema([field for field in ALERTS if field.name != "connections"])
    log = TableLog(path, {})
    log.create(fewer, Layout())
    AlertTable(path, {}).check()
    write(path, [alert("a", 1)], 0)
    assert len(rows(path)["a"]["connections"]) == 1


def test_alerts_are_found_by_a_filter_of_any_reader(path: str) -> None:
    """What delta-rs merges it writes as Arrow's views, which filters of pyarrow do not know."""
    write(path, [alert("a", 1), alert("b", 1)], 0)
    write(path, [alert("a", 2, cleared=2)], 1)
    found = DeltaTable(path).to_pyarrow_dataset().to_table(filter=pc.field("state") == "open")
    assert found["alert_id"].to_pylist() == ["b"]


def test_the_files_of_many_batches_are_written_together_now_and_then(path: str) -> None:
    for batch in range(40):
        write(path, [alert(f"a{batch}", 1)], batch)
    assert len(rows(path)) == 40
    assert len(DeltaTable(path).file_uris()) == 40 - 32


def test_of_two_watches_that_write_at_once_the_second_loses(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, [alert("a", 1)], 0)
    change = TableLog.change

    def after_another(*given: Any, **named: Any) -> int:
        monkeypatch.setattr(TableLog, "change", change)
        write(path, [alert("a", 2, cleared=2)], 0, "another")
        return change(*given, **named)

    monkeypatch.setattr(TableLog, "change", after_another)
    with pytest.raises(CommitFailedError):
        write(path, [alert("a", 3)], 1)
    assert states(path) == {"a": ("cleared", 2)}

"""Comments of tables and columns, in the code and in the metadata of Delta tables."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.comments import comment_of, description_of, words
from fleetgauge.fleet.tables.log import Layout
from fleetgauge.fleet.tables.maintain import maintain
from fleetgauge.fleet.tables.store import Store

PUBLIC = [table for table in catalog.TABLES.values() if table.is_public]
COMMENTED = [(table, column) for table in PUBLIC for column in table.schema.names]


def test_every_table_and_column_is_described() -> None:
    for table, column in COMMENTED:
        assert description_of(table.name)
        assert len(comment_of(table.name, column)) > 3


def test_a_time_size_or_rate_has_its_unit() -> None:
    units = {"_ms": "[ms]", "_bytes": "[B]", "_per_s": "[1/s]", "_s": "[s]", "_at": "(UTC)"}
    for table, column in COMMENTED:
        suffix = next((each for each in units if column.endswith(each)), None)
        if suffix is not None:
            assert units[suffix] in comment_of(table.name, column), (table.name, column)


def test_every_comment_is_of_a_column_that_is_there() -> None:
    columns = {column for _, column in COMMENTED}
    known = {(table.name, column) for table, column in COMMENTED}
    assert set(words()["columns"]) <= columns
    assert set(words()["tables"]) == {table.name for table in PUBLIC}
    own = {(table, column) for table in words() if table not in ("tables", "columns") for column in words()[table]}
    assert own <= known


def comments(path: str) -> dict[str, str | None]:
    return {column.name: column.metadata.get("comment") for column in DeltaTable(path).schema().fields}


@pytest.mark.parametrize("table", [catalog.VERSIONS, catalog.LATENCY], ids=lambda table: table.name)
def test_delta_metadata_has_them_whatever_is_written(tmp_path: Path, table: catalog.Table) -> None:
    store = Store(str(tmp_path))
    store.make(table)
    store.replace(table, table.schema.empty_table())
    store.append_rows(table, [{}])
    found = DeltaTable(table.path(str(tmp_path)))
    assert found.metadata().description == description_of(table.name)
    assert comments(table.path(str(tmp_path))) == dict(table.layout.comments)


def test_a_table_of_an_earlier_release_gets_them_by_upkeep(tmp_path: Path) -> None:
    store, table = Store(str(tmp_path)), catalog.VERSIONS
    store.log(table).create(table.schema, Layout())
    path = table.path(str(tmp_path))
    assert set(comments(path).values()) == {None}
    for _ in range(2):
        maintain(store, keep_from=None, vacuum_after_hours=0, stage=lambda _: None)
    assert comments(path) == dict(table.layout.comments)
    assert DeltaTable(path).metadata().description == description_of(table.name)

"""Tables that an earlier release wrote are read and go on in place.

`tests/data/fleet_tables_1.tgz`, written by commit 8e8dd3a4: `tables`, made of the landing zone `read` by two batches
with late pushes between them, when it lay at /srv/fleet; and `new`, a zone with the other pushes of the same clients.
"""

import tarfile
from pathlib import Path

import pytest
from support.fleet.standing_tables import assert_equal, contents, rows
from typer.testing import CliRunner

from fleetgauge.cli.fleet.app import app
from fleetgauge.fleet.engines.engine import InProcess
from fleetgauge.fleet.pipeline.ledger import Ledger
from fleetgauge.fleet.pipeline.source import source_name
from fleetgauge.fleet.tables.store import Store

DATA = Path(__file__).parents[3] / "data"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    with tarfile.open(DATA / "fleet_tables_1.tgz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def run(tables: Path, source: Path, *more: str) -> None:
    result = CliRunner().invoke(app, ["run", "--source", str(source), "--tables", str(tables), *more])
    assert result.exit_code == 0, result.output


def test_what_was_read_is_known_and_no_batch_is_open(written: Path) -> None:
    name = source_name("/srv/fleet/read")
    ledger = Ledger(Store(f"file:{written / 'tables'}"), name)
    assert (ledger.app_id, ledger.unfinished()) == (f"{name}-0", [])
    assert sorted(Path(path).name for path in ledger.read_to()) == ["part-0.parquet", "part-1.parquet"]


def test_upgraded_tables_have_the_rows_of_new_ones(written: Path) -> None:
    """However many shards they have."""
    upgraded, anew = written / "tables", written / "anew"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(InProcess, "shards", 1024)
        run(upgraded, written / "new")
    run(upgraded, written / "new", "--rebuild")
    for zone in ("read", "new"):
        run(anew, written / zone)
    run(anew, written / "new", "--rebuild")
    without = ("rejects", "series")  # rejects name the file that they lie in
    assert_equal(contents(upgraded, without=without), contents(anew, without=without))
    # The release did not remember what deltas add up to.
    found, expected = (
        sorted((row["client_instance_id"], row["series"], row["push_id"]) for row in rows(tables, "series"))
        for tables in (upgraded, anew)
    )
    assert found == expected

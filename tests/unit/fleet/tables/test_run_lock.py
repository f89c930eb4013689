"""One run at a time on the tables of a directory."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import PATIENCE_S

from fleetgauge.fleet.errors import TableError
from fleetgauge.fleet.tables.lock import only_run


def test_a_second_run_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    refused = pytest.raises(TableError, match="another run is using the tables in")
    with only_run(str(tmp_path)), refused, only_run(tmp_path.as_uri()):
        pytest.fail("both have it")
    with only_run(str(tmp_path)):
        pass


def test_the_lock_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    code = (
        "import os, sys\nfrom fleetgauge.fleet.tables.lock import only_run\n"
        "with only_run(sys.argv[1]):\n    os.kill(os.getpid(), 9)\n"
    )
    died = subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=PATIENCE_S, check=False)
    assert died.returncode == -9
    with only_run(str(tmp_path)):
        pass


def test_other_runs_may_have_other_tables(tmp_path: Path) -> None:
    with only_run(str(tmp_path / "a")), only_run(str(tmp_path / "b")), only_run("s3a://lake/a"):
        pass


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = pytest.raises(TableError, match=r"file/tables is not writable: Not a directory")
    with refused, only_run(str(tmp_path / "file" / "tables")):
        pytest.fail("there is no such directory")

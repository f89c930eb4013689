"""Spark's Python workers, started in a directory with modules of the same names as Fleetgauge's."""

import subprocess
import sys
from pathlib import Path

import pytest

from fleetgauge.fleet.errors import JavaError
from fleetgauge.fleet.spark.session import check_java

pytestmark = pytest.mark.spark

PROGRAM = """
from fleetgauge.fleet.spark.session import start_session

def through_base(batches):
    import fleetgauge.base.errors
    yield from batches

spark = start_session()
print("rows", spark.range(3).mapInArrow(through_base, "id long").count())
spark.stop()
"""


def test_a_worker_of_a_local_spark_imports_none_of_them(tmp_path: Path) -> None:
    try:
        check_java()
    except JavaError as error:
        pytest.skip(str(error))
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "__init__.py").write_text("raise SystemExit('a foreign module was imported')\n")
    command = [sys.executable, "-P", "-c", PROGRAM]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
    assert ran.stdout.splitlines()[-1:] == ["rows 3"], ran.stderr

"""pyarrow without the import of pandas that its first array brings."""

import subprocess
import sys

import pytest

pytest.importorskip("pandas", reason="nothing is to be left out where pandas is not installed")


def in_a_process_of_its_own(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.slow
def test_arrays_and_tables_are_made_without_importing_pandas() -> None:
    made = "import sys; from fleetgauge.fleet.arrow import pa; pa.table({'a': pa.array(['x'])})"
    assert in_a_process_of_its_own(f"{made}; print('pandas' in sys.modules)") == "False"


@pytest.mark.slow
def test_what_asks_for_pandas_still_has_it() -> None:
    made = "from fleetgauge.fleet.arrow import pa; print(list(pa.table({'a': [1, 2]}).to_pandas()['a']))"
    assert in_a_process_of_its_own(made) == "[1, 2]"

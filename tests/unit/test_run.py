"""The program behind `make test` and `make test-real`: what it runs once more, what it notes, and its exit code."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
import run

TESTS = """
from pathlib import Path

def test_steady(): ...

def test_unsteady():
    flag = Path(__file__).with_name("ran")
    seen = flag.exists()
    flag.touch()
    assert seen

class TestBroken:
    def test_broken(self):
        assert False
"""


@pytest.mark.parametrize(
    ("place", "name", "expected"),
    [
        ("tests.unit.wire.tls.test_server", "test_a[1.5-A]", "tests/unit/wire/tls/test_server.py::test_a[1.5-A]"),
        ("tests.property.test_p.TestModel", "runTest", "tests/property/test_p.py::TestModel::runTest"),
        ("", "tests.unit.test_gone", "tests/unit/test_gone.py"),
    ],
)
def test_a_case_is_named_as_pytest_takes_it(place: str, name: str, expected: str) -> None:
    assert run.node_id(ElementTree.Element("testcase", classname=place, name=name)) == expected


@pytest.mark.slow
@pytest.mark.parametrize(("target", "unsteady"), [("test-real", ["tests/test_a.py::test_unsteady"]), ("test", [])])
def test_what_failed_runs_once_more_alone_where_the_target_says_so(
    target: str, unsteady: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text(TESTS)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "RESULTS", tmp_path / ".results")
    monkeypatch.setitem(run.TARGETS, target, ("-p", "no:randomly", "-n", "1", "tests"))
    assert run.main(target) == 1
    noted = json.loads((tmp_path / ".results" / "runs.jsonl").read_text())
    assert (noted["target"], noted["tests"], noted["unsteady"]) == (target, 3, unsteady)
    broken = ["tests/test_a.py::TestBroken::test_broken"]
    assert noted["failed"] == (broken if unsteady else [*broken, "tests/test_a.py::test_unsteady"])
    assert json.loads((tmp_path / ".results" / "unsteady.json").read_text()) == unsteady

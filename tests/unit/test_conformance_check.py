"""The check of docs/conformance.md finds what it is there for."""

from pathlib import Path

import pytest
from conformance import complaints, named_tests, outcomes

DOCUMENT = """| section | a rule | `unit/a/test_b.py::test_c` `unit/a/test_b.py::test_d` | |
no test: `wire/frames.py`
"""
RESULTS = """<testsuites><testsuite>
<testcase classname="tests.unit.a.test_b" name="test_c[1]"/>
<testcase classname="tests.unit.a.test_b" name="test_c[2]">{second}</testcase>
<testcase classname="tests.unit.a.test_b" name="test_d"/>
</testsuite></testsuites>"""


def found(tmp_path: Path, second: str = "") -> dict[str, set[str]]:
    results = tmp_path / "results.xml"
    results.write_text(RESULTS.format(second=second))
    return outcomes([results])


def test_tests_are_found_with_their_line() -> None:
    assert list(named_tests(DOCUMENT)) == [(1, "unit/a/test_b.py::test_c"), (1, "unit/a/test_b.py::test_d")]


def test_a_document_whose_tests_all_passed_is_in_order(tmp_path: Path) -> None:
    assert complaints(DOCUMENT, found(tmp_path)) == []


@pytest.mark.parametrize(
    ("second", "outcome"),
    [("<skipped/>", "passed and skipped"), ("<failure/>", "failed and passed"), ("<error/>", "failed and passed")],
)
def test_one_parameter_that_did_not_pass_is_named(tmp_path: Path, second: str, outcome: str) -> None:
    assert complaints(DOCUMENT, found(tmp_path, second)) == [f"line 1: unit/a/test_b.py::test_c was {outcome}"]


def test_a_missing_test_is_named() -> None:
    assert complaints("`unit/x/test_y.py::test_z`", {}) == ["line 1: there is no test unit/x/test_y.py::test_z"]

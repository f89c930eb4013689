"""The table of what guards what finds a rule, an attack or a promise without a test, and a test that did not pass."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("base", "bridge/src/main", "exporters", "fleet", "fleetgauge", "gateway", "quotas", "telemetry", "wire")


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("guards", ROOT / "tools/guards.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look their module up
    spec.loader.exec_module(module)
    return module


guards = loaded()

README = """# Page

What it promises:

- **Nothing is lost.** It
  is kept.
- **Losses are counted.**

| to | see |
|---|---|
| install | it |
"""
DELIVERY = """# Delivery: a page

The log keeps **every push**.

## An outage

| answer | action |
|---|---|
| busy | tried again |

```
no promise
```

## What to watch

Metrics.
"""
HARDENING = """# Hardening

## Requests

| attack | what is tried | test |
|---|---|---|
| a flood | much | `unit/test_a.py::test_flood` `integration/test_b.py::test_flood` |

Also `unit/test_a.py::test_text`.
"""
CONFORMANCE = """# Conformance

| section | a rule | shown by |
|---|---|---|
| KIP | holds | `unit/test_a.py::test_rule` |

## Promises

| page | the promise begins with | shown by |
|---|---|---|
| README.md | Nothing is lost. | `unit/test_a.py::test_kept` |
| README.md | Losses | `unit/test_a.py::test_counted` |
| docs/deliver/delivery.md | The log keeps every push. | `unit/test_a.py::test_kept` |
| docs/deliver/delivery.md | busy | `integration/test_b.py::test_again` |
"""
UNIT = """
def test_flood(): ...
def test_text(): ...
def test_rule(): ...
def test_kept(): ...
def test_counted(): ...
"""
INTEGRATION = """
import pytest
def test_flood(): ...
def test_again(): ...
@pytest.mark.soak
def test_for_hours(): ...
"""
FILES = {
    "README.md": README,
    "docs/deliver/delivery.md": DELIVERY,
    "docs/reference/hardening.md": HARDENING,
    "docs/reference/conformance.md": CONFORMANCE,
    "tests/unit/test_a.py": UNIT,
    "tests/integration/test_b.py": INTEGRATION,
}
RESULTS = """<testsuites><testsuite>
<testcase classname="tests.unit.test_a" name="test_flood[1]"/>
<testcase classname="tests.unit.test_a" name="test_flood[2]">{second}</testcase>
<testcase classname="tests.unit.test_a" name="test_text"/>
<testcase classname="tests.unit.test_a" name="test_rule"/>
<testcase classname="tests.unit.test_a" name="test_kept"/>
{last}
</testsuite></testsuites>"""
PARAMETERS = """
full = pytest.mark.soak
@pytest.mark.parametrize("n", [1, pytest.param(2, marks=full), pytest.param(3, marks=[pytest.mark.real])])
def test_x(n): ...
"""
STATEMENTS = """## The specification, statement by statement

| id | section | statement | class | where it acts |
|---|---|---|---|---|
| K714-1 | Naming | Names have dots. | `names` | serve, library |
| C-1 | Caches | They are full. | `cache` | gateway |
| C-2 | Caches | ZooKeeper is left out. | - | none: there is no ZooKeeper |

## Promises
"""
SHOWN = "| K714-1 C-1 KIP | holds | `unit/test_a.py::test_rule` |"
COUNTED = '<testcase classname="tests.unit.test_a" name="test_counted"/>'


SEVERAL_ROWS = (
    'README.md, line 5: "Promises" in docs/reference/conformance.md has several rows for "Nothing is lost. It is kept."'
)


class Project:
    """A small project of which parts can be replaced, and what the program says of it."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self.capsys = root, capsys
        for name, text in FILES.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)

    def replace(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text()
        assert old in text
        (self.root / name).write_text(text.replace(old, new))

    def results(self, *, second: str = "", last: str = COUNTED) -> str:
        path = self.root / "results.xml"
        path.write_text(RESULTS.format(second=second, last=last))
        return str(path)

    def check(self, *arguments: str) -> tuple[int, list[str]]:
        """The exit code, and the lines of both outputs."""
        code = guards.main(arguments, self.root)
        said = self.capsys.readouterr()
        return code, [*said.out.splitlines(), *said.err.splitlines()]


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Project:
    return Project(tmp_path, capsys)


def test_every_rule_attack_and_promise_has_its_tests(capsys: pytest.CaptureFixture[str]) -> None:
    assert guards.main([]) == 0, capsys.readouterr().err


def test_documents_whose_rows_all_have_tests_are_a_line_each(project: Project) -> None:
    assert project.check() == (
        0,
        [
            "README.md: 2 rows, guarded by 2 tests (make test 2)",
            "docs/deliver/delivery.md: 2 rows, guarded by 2 tests (make test 1, make test-real 1)",
            "docs/reference/conformance.md: 1 rows, guarded by 1 tests (make test 1)",
            "docs/reference/hardening.md: 2 rows, guarded by 3 tests (make test 2, make test-real 1)",
        ],
    )


@pytest.mark.parametrize(
    ("name", "old", "new", "fault"),
    [
        (
            "docs/reference/hardening.md",
            "| much | `unit/test_a.py::test_flood` `integration/test_b.py::test_flood` |",
            "| much | |",
            'docs/reference/hardening.md, line 7, "a flood: much": names no test',
        ),
        (
            "docs/reference/conformance.md",
            "test_rule",
            "test_gone",
            'docs/reference/conformance.md, line 5, "KIP: holds": there is no test unit/test_a.py::test_gone',
        ),
        (
            "docs/reference/hardening.md",
            "test_text",
            "test_gone",
            'docs/reference/hardening.md, line 9, "text of Requests": there is no test unit/test_a.py::test_gone',
        ),
        (
            "docs/reference/conformance.md",
            "test_counted",
            "test_gone",
            'docs/reference/conformance.md, line 12, "Losses are counted.": there is no test unit/test_a.py::test_gone',
        ),
        (
            "docs/reference/conformance.md",
            "test_again",
            "test_for_hours",
            'docs/reference/conformance.md, line 14, "busy: tried again": has no test but those of make soak',
        ),
        (
            "README.md",
            "- **Losses",
            "- **More.**\n- **Losses",
            'README.md, line 7: "Promises" in docs/reference/conformance.md has no row for "More."',
        ),
        (
            "docs/deliver/delivery.md",
            "## What to watch",
            "Once more.\n\n## What to watch",
            f'docs/deliver/delivery.md, line 15: "Promises" in {guards.CONFORMANCE} has no row for "Once more."',
        ),
        (
            "docs/deliver/delivery.md",
            "| busy | tried again |\n",
            "",
            'docs/reference/conformance.md, line 14: not one promise of docs/deliver/delivery.md begins with "busy"',
        ),
        (
            "docs/reference/conformance.md",
            "| README.md | Losses |",
            "| README.md | Nothing | `unit/test_a.py::test_kept` |\n| README.md | Losses |",
            SEVERAL_ROWS,
        ),
        (
            "docs/reference/conformance.md",
            "| docs/deliver/delivery.md | busy |",
            "| CHANGELOG.md | busy | `unit/test_a.py::test_kept` |\n| docs/deliver/delivery.md | busy |",
            f'{guards.CONFORMANCE}, line 14: "CHANGELOG.md" is not a page with promises: {", ".join(guards.PROMISING)}',
        ),
    ],
)
def test_a_fault_is_named_with_its_document_line_and_row(
    project: Project, name: str, old: str, new: str, fault: str
) -> None:
    project.replace(name, old, new)
    assert project.check() == (1, [fault])


@pytest.mark.parametrize(("end", "code"), [(":", 0), (".", 1)])
def test_a_line_that_ends_with_a_colon_names_the_tests_of_the_table_below_it(
    project: Project, end: str, code: int
) -> None:
    table = "\n\n| attack | answer |\n|---|---|\n| a trickle | none |"
    project.replace(
        "docs/reference/hardening.md",
        "Also `unit/test_a.py::test_text`.",
        f"By `unit/test_a.py::test_text`{end}{table}",
    )
    assert project.check()[0] == code


@pytest.fixture
def specified(project: Project) -> Project:
    """The project with a specification whose statements have their row."""
    project.replace("docs/reference/conformance.md", "## Promises\n", STATEMENTS)
    project.replace("docs/reference/conformance.md", "| KIP | holds | `unit/test_a.py::test_rule` |", SHOWN)
    return project


def test_statements_that_rows_show_need_no_test_of_their_own(specified: Project) -> None:
    code, said = specified.check()
    assert (code, said[2]) == (0, "docs/reference/conformance.md: 1 rows, guarded by 1 tests (make test 1)")


@pytest.mark.parametrize(
    ("old", "new", "faults"),
    [
        ("C-1 KIP", "KIP", ['line 12, "C-1 They are full.": no row shows it']),
        ("K714-1 C-1 KIP", "K714-1 C-1 K124-9 KIP", ["line 5: K124-9 is no statement"]),
        (
            "| C-2 |",
            "| C-1 |",
            [
                'line 12, "C-1 They are full.": the id stands 2 times',
                'line 13, "C-1 ZooKeeper is left out.": the id stands 2 times',
            ],
        ),
        ("| C-2 |", "| C2 |", ['line 13, "C2 ZooKeeper is left out.": not an id such as K714-1 or C-1']),
        (
            "| gateway |",
            "| proxy |",
            [
                'line 12, "C-1 They are full.": "proxy" is not of serve, gateway, plugin, library, nor "none: why"',
            ],
        ),
    ],
)
def test_a_statement_without_its_row_and_a_wrong_id_are_named(
    specified: Project, old: str, new: str, faults: list[str]
) -> None:
    specified.replace("docs/reference/conformance.md", old, new)
    assert specified.check() == (1, [f"docs/reference/conformance.md, {fault}" for fault in faults])


def test_every_class_that_a_statement_names_is_in_our_source() -> None:
    page = (ROOT / "docs/reference/conformance.md").read_text()
    columns = [
        cells[3]
        for _, head, line in guards.table_lines(page)
        if head == guards.STATEMENTS_HEAD
        if (cells := guards.cells(line))
    ]
    names = {name for column in columns for name in re.findall("`([^`]+)`", column)}
    source = "\n".join(
        path.read_text() for room in ROOMS for kind in ("py", "java") for path in (ROOT / room).rglob(f"*.{kind}")
    )
    defined = set(re.findall(r"\b(?:class|def|record|interface) (\w+)|^(\w+)(?:: Final)? = ", source, re.MULTILINE))
    known = {name for found in defined for name in found}
    modules = [name.replace(".", "/") for name in names - known]
    assert names
    assert [each for each in modules if not (ROOT / each).is_dir() and not (ROOT / f"{each}.py").is_file()] == []


def test_a_page_that_lost_the_heading_of_its_promises_is_named(project: Project) -> None:
    project.replace("README.md", "What it promises:", "What it does:")
    code, said = project.check()
    assert code == 1
    assert said[0] == 'README.md: no promise between "What it promises:" and "| to "'


def test_tests_of_the_target_that_passed_are_in_order_whatever_others_did(project: Project) -> None:
    code, said = project.check("--target", "test", project.results())
    assert code == 0
    assert said[0] == "README.md: 2 rows, guarded by 2 tests (make test 2); those of make test passed"


@pytest.mark.parametrize(
    ("second", "outcome"),
    [("<skipped/>", "passed and skipped"), ("<failure/>", "failed and passed"), ("<error/>", "failed and passed")],
)
def test_one_parameter_that_did_not_pass_is_named(project: Project, second: str, outcome: str) -> None:
    place = 'docs/reference/hardening.md, line 7, "a flood: much"'
    assert project.check("--target", "test", project.results(second=second)) == (
        1,
        [f"{place}: unit/test_a.py::test_flood was {outcome} in make test"],
    )


def test_of_a_parameter_that_ran_again_the_last_result_counts(project: Project) -> None:
    again = project.root / "again.xml"
    again.write_text(Path(project.results()).read_text())
    results = project.results(second="<failure/>")
    assert project.check("--target", "test", results, str(again))[0] == 0
    assert project.check("--target", "test", str(again), results)[0] == 1


def test_a_test_that_the_target_did_not_run_is_named(project: Project) -> None:
    place = f'{guards.CONFORMANCE}, line 12, "Losses are counted."'
    assert project.check("--target", "test", project.results(last="")) == (
        1,
        [f"{place}: unit/test_a.py::test_counted was not run in make test"],
    )


@pytest.mark.parametrize("arguments", [["--target", "test"], ["results.xml"]])
def test_results_and_their_target_come_together(project: Project, arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        project.check(*arguments)
    assert "--target and its results are given together" in project.capsys.readouterr().err


def test_the_table_has_a_row_for_each_row_of_the_documents(project: Project) -> None:
    code, said = project.check("--table", str(project.root / "table.md"))
    table = (project.root / "table.md").read_text().splitlines()
    assert (code, len(said), len(table)) == (0, 4, 2 + 7)
    assert table[:3] == [
        "| document | row | tests | target |",
        "|---|---|---|---|",
        "| README.md:5 | Nothing is lost. It is kept. | unit/test_a.py::test_kept | make test |",
    ]
    assert table[-2] == (
        "| docs/reference/hardening.md:7 | a flood: much | unit/test_a.py::test_flood"
        "<br>integration/test_b.py::test_flood "
        "| make test<br>make test-real |"
    )
    assert project.check("--table", "-")[1][:9] == table


@pytest.mark.parametrize(
    ("path", "markers", "target"),
    [
        ("unit/a/test_b.py", "", "test"),
        ("property/test_b.py", "slow", "test"),
        ("fuzz/test_b.py", "soak", "soak"),
        ("golden/test_b.py", "real", "test-real"),
        ("integration/a/test_b.py", "integration", "test-real"),
        ("spark/test_b.py", "", "test-real"),
        ("spark/test_b.py", "soak", "soak"),
        ("trips/test_b.py", "real", "test"),
    ],
)
def test_path_and_markers_decide_on_the_target(path: str, markers: str, target: str) -> None:
    assert guards.target_of(path, frozenset(markers.split())) == target


@pytest.mark.parametrize(
    ("source", "targets"),
    [
        ("def test_x(): ...", {"test"}),
        ("async def test_x(): ...", {"test"}),
        ("pytestmark = pytest.mark.soak\ndef test_x(): ...", {"soak"}),
        ("pytestmark = [pytest.mark.real, pytest.mark.timeout(9)]\ndef test_x(): ...", {"test-real"}),
        ("@pytest.mark.real\ndef test_x(): ...", {"test-real"}),
        ("@pytest.mark.skipif(True, reason='soak')\ndef test_x(): ...", {"test"}),
        ("full = pytest.mark.soak\n@full\ndef test_x(): ...", {"soak"}),
        (PARAMETERS, {"test", "test-real", "soak"}),
        ("@pytest.mark.parametrize('n', [pytest.param(2, marks=pytest.mark.soak)])\ndef test_x(n): ...", {"soak"}),
        ("@pytest.mark.parametrize('n', NUMBERS)\ndef test_x(n): ...", {"test"}),
    ],
)
def test_markers_are_read_of_modules_tests_and_parameters(source: str, targets: set[str]) -> None:
    assert dict(guards.tests_of(source, "unit/test_a.py")) == {"unit/test_a.py::test_x": targets}

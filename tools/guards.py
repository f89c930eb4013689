"""Maps each rule, attack and promise of the documents to the tests that guard it and the `make` targets that run them.

    python tools/guards.py [--table FILE] [--target {test,test-real,soak} RESULTS.xml...]

Without results nothing needs to have run: tests are read from their sources. The results are what pytest's `--junitxml`
wrote in a target; of a case that ran again, the last file counts. Exits with 1 and one sentence per fault, with
document, line and row.

What needs a test:

- docs/reference/conformance.md and docs/reference/hardening.md: every row of every table. The row names its tests, as
  `unit/wire/tls/test_server.py::test_name` below tests/; a line that ends with a colon names those of the table that it
  introduces. Tests that the text between tables names are checked, too.
- README.md: every list item below "What it promises:". docs/deliver/delivery.md: every paragraph and every row of a
  table above "What to watch"; below it, the page describes metrics, events and keys. A paragraph or a list item is one
  promise; code and headings are none. These pages name no tests. The tables below "Promises" in
  docs/reference/conformance.md do: one row per promise, with the page, the words that the promise begins with, and its
  tests.
- "The specification, statement by statement" in docs/reference/conformance.md: one table per document, one row per
  statement. A row of another table of that page names the ids of the statements that it shows at the beginning of its
  first cell. A statement that acts in none of our parts says why, and needs no row.

Faults are: a row or a promise without a test that `make test` or `make test-real` runs, a row of "Promises" that fits
not exactly one promise, a statement that no row shows, an id that stands twice or is no statement's, a test that does
not exist, and, of the tests that the target runs, one that did not run, was skipped or failed.

`target_of` decides which target runs a test.
"""

import argparse
import ast
import itertools
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

ROOT: Final = Path(__file__).resolve().parents[1]
CONFORMANCE: Final = "docs/reference/conformance.md"
NAMING_TESTS: Final = (CONFORMANCE, "docs/reference/hardening.md")
PROMISES_HEAD: Final = ["page", "the promise begins with", "shown by"]
STATEMENTS_HEAD: Final = ["id", "section", "statement", "class", "where it acts"]
PARTS: Final = ("serve", "gateway", "plugin", "library")
"""Where a statement may act; in none of them: `none: why`."""
TARGETS: Final = ("test", "test-real", "soak")

Tests = Mapping[str, frozenset[str]]
"""The targets that run each test; of several, each runs some of its parameters."""
Outcomes = Mapping[str, set[str]]

_NAMED = re.compile(r"`([\w/]+\.py::\w+)`")
_CELL_END = re.compile(r"(?<!\\)\|")
_ID = re.compile(r"(?:K\d+|C)-\d+")
"""A statement of a KIP, or of the chapter on Kafka's quotas and client metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The lines of a page that make promises, between two lines that begin with these words."""

    after: str
    until: str


PROMISING: Final = {
    "README.md": Part(after="What it promises:", until="| to "),
    "docs/deliver/delivery.md": Part(after="# ", until="## What to watch"),
}
DOCUMENTS: Final = (*PROMISING, *NAMING_TESTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A rule, an attack or a promise.

    Attributes:
        line: of the document; 1 is the first.
        named_at: document and line that name the tests: another one than `document` and `line` for a promise.
    """

    document: str
    line: int
    text: str
    tests: tuple[str, ...]
    named_at: tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseRow:
    """A row of "Promises": `opening` are the words that a promise of `page` begins with."""

    line: int
    page: str
    opening: str
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement of the specification; `where` are the parts of ours in which it acts, or `none: why`."""

    line: int
    id: str
    text: str
    where: str

    @property
    def acts(self) -> bool:
        """True if a row has to show it."""
        return not self.where.startswith("none: ")


def target_of(path: str, markers: frozenset[str]) -> str:
    """The target that runs a test, or those of its parameters that have these markers.

    Args:
        path: the test's file below tests/.
        markers: of the module, the test and its parameters together.
    """
    if "soak" in markers:
        return "soak"
    if path.startswith("trips/"):
        return "test"
    if path.startswith(("integration/", "spark/")) or "real" in markers:
        return "test-real"
    return "test"


# Documents.


def cells(line: str) -> list[str]:
    """The cells of a row of a Markdown table."""
    return [cell.strip() for cell in _CELL_END.split(line.strip())[1:-1]]


def plain(text: str) -> str:
    """Text on one line, without emphasis."""
    return " ".join(text.replace("**", "").split())


def content_lines(document: str) -> Iterator[tuple[int, str]]:
    """Every line with its number; lines of code are empty."""
    in_code = False
    for number, line in enumerate(document.splitlines(), start=1):
        is_fence = line.startswith("```")
        yield number, "" if in_code or is_fence else line
        in_code ^= is_fence


def table_lines(document: str) -> Iterator[tuple[int, list[str], str]]:
    """Number, head of its table and text of every row; of a line outside of tables the head is empty."""
    head: list[str] = []
    for number, line in content_lines(document):
        if not line.startswith("|"):
            head = []
            yield number, head, line
        elif not head:
            head = cells(line)
        elif not line.startswith("|---"):
            yield number, head, line


def rows(document: str, name: str) -> Iterator[Row]:
    """The rows of all tables but those of promises and statements, and each line of text that names tests."""
    heading = ""
    introduced: tuple[str, ...] = ()
    for number, head, line in table_lines(document):
        tests = tuple(_NAMED.findall(line))
        if line.strip() and not line.startswith("|"):
            introduced = tests if line.endswith(":") else ()
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif head and head not in (PROMISES_HEAD, STATEMENTS_HEAD):
            shown_by = tests or introduced
            yield Row(document=name, line=number, text=_row_text(line), tests=shown_by, named_at=(name, number))
        elif tests and not head:
            yield Row(document=name, line=number, text=f"text of {heading}", tests=tests, named_at=(name, number))


def _row_text(line: str) -> str:
    """The first two cells: a rule with its section, an attack with what is tried."""
    texts = (plain(_NAMED.sub("", cell)) for cell in cells(line)[:2])
    return ": ".join(filter(None, texts))


def promise_rows(document: str) -> list[PromiseRow]:
    """The rows of the tables of promises."""
    made = []
    for number, head, line in table_lines(document):
        if head == PROMISES_HEAD:
            page, opening = cells(line)[:2]
            tests = tuple(_NAMED.findall(line))
            made.append(PromiseRow(line=number, page=page, opening=plain(opening), tests=tests))
    return made


def statements(document: str) -> list[Statement]:
    """The rows of the tables of statements."""
    return [
        Statement(line=number, id=found[0], text=plain(found[2]), where=found[-1])
        for number, head, line in table_lines(document)
        if head == STATEMENTS_HEAD and (found := cells(line))
    ]


def shown_ids(document: str) -> Iterator[tuple[int, str]]:
    """Line and id of each statement that a row of another table names at the beginning of its first cell."""
    for number, head, line in table_lines(document):
        if head and head != STATEMENTS_HEAD:
            yield from ((number, word) for word in itertools.takewhile(_ID.fullmatch, cells(line)[0].split()))


def statement_faults(listed: Sequence[Statement], shown: Sequence[tuple[int, str]]) -> list[str]:
    """Statements without a row, rows of unknown statements, and ids or parts that are none."""
    ids = Counter(each.id for each in listed)
    by_row = {name for _, name in shown}
    wrong = []
    for each in listed:
        place = f'{CONFORMANCE}, line {each.line}, "{each.id} {_short(each.text)}"'
        if not _ID.fullmatch(each.id):
            wrong.append(f"{place}: not an id such as K714-1 or C-1")
        elif ids[each.id] > 1:
            wrong.append(f"{place}: the id stands {ids[each.id]} times")
        elif each.acts and each.id not in by_row:
            wrong.append(f"{place}: no row shows it")
        if each.acts and not {part.strip() for part in each.where.split(",")} <= set(PARTS):
            wrong.append(f'{place}: "{each.where}" is not of {", ".join(PARTS)}, nor "none: why"')
    wrong += (f"{CONFORMANCE}, line {line}: {name} is no statement" for line, name in shown if name not in ids)
    return wrong


def promises(document: str, part: Part) -> list[tuple[int, str]]:
    """Line and text of each promise of a page, in order."""
    found: list[tuple[int, str]] = []
    is_open = False
    for number, line in _lines_of_part(document, part):
        if not line.strip() or line.startswith("#"):
            is_open = False
        elif is_open and not line.startswith(("- ", "|")):
            begin, text = found[-1]
            found[-1] = begin, f"{text} {plain(line)}"
        else:
            found.append((number, _promise_text(line)))
            is_open = True
    return found


def _promise_text(line: str) -> str:
    return ": ".join(map(plain, cells(line))) if line.startswith("|") else plain(line.removeprefix("- "))


def _lines_of_part(document: str, part: Part) -> Iterator[tuple[int, str]]:
    after = itertools.dropwhile(lambda numbered: not numbered[1].startswith(part.after), content_lines(document))
    next(after, None)
    inside = {
        number for number, _ in itertools.takewhile(lambda numbered: not numbered[1].startswith(part.until), after)
    }
    return ((number, line) for number, _, line in table_lines(document) if number in inside)


def matched(page: str, found: Sequence[tuple[int, str]], listed: Sequence[PromiseRow]) -> tuple[list[Row], list[str]]:
    """The promises of a page with the tests that "Promises" names for them, and what does not fit."""
    made, wrong = [], []
    openings = [row for row in listed if row.page == page]
    for line, text in found:
        fitting = [row for row in openings if text.startswith(row.opening)]
        if len(fitting) == 1:
            tests, named_at = fitting[0].tests, (CONFORMANCE, fitting[0].line)
            made.append(Row(document=page, line=line, text=text, tests=tests, named_at=named_at))
        else:
            number = "several rows" if fitting else "no row"
            wrong.append(f'{page}, line {line}: "Promises" in {CONFORMANCE} has {number} for "{_short(text)}"')
    wrong += (
        f'{CONFORMANCE}, line {row.line}: not one promise of {page} begins with "{row.opening}"'
        for row in openings
        if sum(text.startswith(row.opening) for _, text in found) != 1
    )
    return made, wrong


def _short(text: str, characters: int = 80) -> str:
    return text if len(text) <= characters else f"{text[:characters].rpartition(' ')[0]} ..."


def read_documents(root: Path) -> tuple[list[Row], list[str]]:
    """All rows, and the faults of "Promises" and of the statements."""
    texts = {name: (root / name).read_text(encoding="utf-8") for name in DOCUMENTS}
    listed = promise_rows(texts[CONFORMANCE])
    made: list[Row] = []
    wrong = [
        f'{CONFORMANCE}, line {row.line}: "{row.page}" is not a page with promises: {", ".join(PROMISING)}'
        for row in listed
        if row.page not in PROMISING
    ]
    wrong += statement_faults(statements(texts[CONFORMANCE]), list(shown_ids(texts[CONFORMANCE])))
    for page, part in PROMISING.items():
        found = promises(texts[page], part)
        if not found:
            wrong.append(f'{page}: no promise between "{part.after}" and "{part.until}"')
        of_page, faults = matched(page, found, listed)
        made += of_page
        wrong += faults
    made += (row for name in NAMING_TESTS for row in rows(texts[name], name))
    return made, wrong


# Tests.


def tests_of(source: str, path: str) -> Iterator[tuple[str, frozenset[str]]]:
    """The tests of a file, as documents name them, and the targets that run them."""
    module = ast.parse(source)
    assigned = {
        target.id: node.value
        for node in module.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    everywhere = _markers(assigned.get("pytestmark"), assigned)
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            own = everywhere.union(*(_markers(each, assigned) for each in node.decorator_list))
            cases = itertools.product(*(_cases(each, assigned) for each in node.decorator_list))
            yield f"{path}::{node.name}", frozenset(target_of(path, own.union(*case)) for case in cases)


def _markers(node: ast.expr | None, assigned: Mapping[str, ast.expr]) -> frozenset[str]:
    """The names of the markers in an expression, which may be a name given to one in this file."""
    match node:
        case ast.Attribute(value=ast.Attribute(attr="mark"), attr=name):
            return frozenset({name})
        case ast.Call(func=called):
            return _markers(called, assigned)
        case ast.List(elts=several) | ast.Tuple(elts=several):
            return frozenset[str]().union(*(_markers(each, assigned) for each in several))
        case ast.Name(id=name) if name in assigned:
            return _markers(assigned[name], assigned)
    return frozenset()


def _cases(decorator: ast.expr, assigned: Mapping[str, ast.expr]) -> set[frozenset[str]]:
    """The sets of markers that the values of a `parametrize` have; one empty set for any other decorator."""
    if not isinstance(decorator, ast.Call) or _markers(decorator, assigned) != {"parametrize"}:
        return {frozenset()}
    values = decorator.args[1] if len(decorator.args) > 1 else None
    if not isinstance(values, ast.List | ast.Tuple) or not values.elts:
        return {frozenset()}
    return {_markers_of_value(each, assigned) for each in values.elts}


def _markers_of_value(value: ast.expr, assigned: Mapping[str, ast.expr]) -> frozenset[str]:
    keywords = value.keywords if isinstance(value, ast.Call) else []
    return frozenset[str]().union(*(_markers(each.value, assigned) for each in keywords if each.arg == "marks"))


def read_tests(root: Path, names: Iterable[str]) -> dict[str, frozenset[str]]:
    """The tests of all files that are named, with their targets."""
    found: dict[str, frozenset[str]] = {}
    for path in sorted({name.partition("::")[0] for name in names}):
        file = root / "tests" / path
        if file.exists():
            found.update(tests_of(file.read_text(encoding="utf-8"), path))
    return found


# Results.


def outcomes(results: Iterable[Path]) -> dict[str, set[str]]:
    """The outcomes of each test over its parameters: `passed`, `skipped`, `failed`."""
    latest = {}
    for path in results:
        for case in ElementTree.parse(path).iter("testcase"):  # noqa: S314  # written by pytest in this run
            latest[case.get("classname", ""), case.get("name", "")] = _outcome(case)
    found = defaultdict(set)
    for (module, name), outcome in latest.items():
        file = module.removeprefix("tests.").replace(".", "/")
        found[f"{file}.py::{name.partition('[')[0]}"].add(outcome)
    return found


def _outcome(case: ElementTree.Element) -> str:
    kinds = {child.tag for child in case}
    if kinds & {"failure", "error"}:
        return "failed"
    return "skipped" if "skipped" in kinds else "passed"


# The check.


def complaints(row: Row, tests: Tests, target: str | None = None, found: Outcomes | None = None) -> list[str]:
    """The faults of one row, a sentence each; with a target, also what its results say of the row's tests."""
    document, line = row.named_at
    place = f'{document}, line {line}, "{_short(row.text)}"'
    if not row.tests:
        return [f"{place}: names no test"]
    wrong = [f"{place}: there is no test {test}" for test in row.tests if test not in tests]
    if not wrong and all(tests[test] == {"soak"} for test in row.tests):
        wrong.append(f"{place}: has no test but those of make soak")
    for test in row.tests:
        if target in tests.get(test, ()):
            outcome = (found or {}).get(test, set())
            if outcome != {"passed"}:
                wrong.append(f"{place}: {test} was {' and '.join(sorted(outcome)) or 'not run'} in make {target}")
    return wrong


def summary(document: str, made: Sequence[Row], tests: Tests, target: str | None) -> str:
    """One line: how many rows a document has, and how many tests of which target guard them."""
    of_document = [row for row in made if row.document == document]
    named = {test for row in of_document for test in row.tests}
    counted = Counter(target for test in named for target in tests[test])
    shares = ", ".join(f"make {each} {counted[each]}" for each in TARGETS if counted[each])
    passed = f"; those of make {target} passed" if target else ""
    return f"{document}: {len(of_document)} rows, guarded by {len(named)} tests ({shares}){passed}"


def table(made: Iterable[Row], tests: Tests) -> str:
    """All rows with their tests and targets, as a table of Markdown."""
    lines = ["| document | row | tests | target |", "|---|---|---|---|"]
    for row in made:
        targets = (
            " and ".join(f"make {each}" for each in TARGETS if each in tests.get(test, ())) for test in row.tests
        )
        text = _short(row.text, 120).replace("|", "\\|")
        lines.append(f"| {row.document}:{row.line} | {text} | {'<br>'.join(row.tests)} | {'<br>'.join(targets)} |")
    return "\n".join(lines) + "\n"


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; results and the target that wrote them belong together."""
    parser = argparse.ArgumentParser(description="Checks that every rule, attack and promise has its tests.")
    parser.add_argument("--table", metavar="FILE", help="write the whole table there, as Markdown; - is stdout")
    parser.add_argument("--target", choices=TARGETS, help="the target that wrote the results")
    parser.add_argument("results", nargs="*", type=Path, help="what pytest's --junitxml wrote")
    given = parser.parse_args(arguments)
    if bool(given.target) != bool(given.results):
        parser.error("--target and its results are given together")
    return given


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Prints a line per document, or what is wrong; 0 or 1."""
    given = options(arguments)
    made, wrong = read_documents(root)
    tests = read_tests(root, (test for row in made for test in row.tests))
    found = outcomes(given.results)
    wrong += (sentence for row in made for sentence in complaints(row, tests, given.target, found))
    if given.table == "-":
        sys.stdout.write(table(made, tests))
    elif given.table:
        Path(given.table).parent.mkdir(parents=True, exist_ok=True)
        Path(given.table).write_text(table(made, tests), encoding="utf-8")
    if wrong:
        sys.stderr.writelines(f"{sentence}\n" for sentence in wrong)
        return 1
    lines = [summary(document, made, tests, given.target) for document in DOCUMENTS]
    (sys.stderr if given.table == "-" else sys.stdout).writelines(f"{line}\n" for line in lines)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

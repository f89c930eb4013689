"""Holds docs/conformance.md and docs/hardening.md to what was run: each test that they name is there, and has passed.

    python tests/conformance.py RESULTS.xml...

The results are what pytest's `--junitxml` wrote. Exits with 1 and says which test of which line is missing, skipped
or failed.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

_DOCS = Path(__file__).resolve().parents[1] / "docs"
DOCUMENTS = _DOCS / "conformance.md", _DOCS / "hardening.md"
_NAMED = re.compile(r"`([\w/]+\.py::\w+)`")


def named_tests(document: str) -> Iterator[tuple[int, str]]:
    """Line number and test, as `unit/telemetry/test_push_ladder.py::test_something`."""
    for number, line in enumerate(document.splitlines(), start=1):
        for match in _NAMED.finditer(line):
            yield number, match[1]


def outcomes(results: Iterable[Path]) -> dict[str, set[str]]:
    """What became of each test, over its parameters: `passed`, `skipped`, `failed`."""
    found = defaultdict(set)
    for path in results:
        for case in ElementTree.parse(path).iter("testcase"):
            file = case.get("classname", "").removeprefix("tests.").replace(".", "/")
            name = f"{file}.py::{case.get('name', '').partition('[')[0]}"
            found[name].add(_outcome(case))
    return found


def _outcome(case: ElementTree.Element) -> str:
    kinds = {child.tag for child in case}
    if kinds & {"failure", "error"}:
        return "failed"
    return "skipped" if "skipped" in kinds else "passed"


def complaints(document: str, found: dict[str, set[str]]) -> list[str]:
    """What does not hold, a sentence each; nothing is the good answer."""
    wrong = []
    for number, test in named_tests(document):
        outcome = found.get(test)
        if outcome is None:
            wrong.append(f"line {number}: there is no test {test}")
        elif outcome != {"passed"}:
            wrong.append(f"line {number}: {test} was {' and '.join(sorted(outcome))}")
    return wrong


def main(results: list[str]) -> int:
    found = outcomes(map(Path, results))
    return max([check(document, found) for document in DOCUMENTS])


def check(document: Path, found: dict[str, set[str]]) -> int:
    """Prints what does not hold of one document, or that all does; 1 or 0."""
    text = document.read_text(encoding="utf-8")
    wrong = complaints(text, found)
    for each in wrong:
        print(f"{document.name}, {each}", file=sys.stderr)
    if not wrong:
        print(f"{document.name}: all {len({test for _, test in named_tests(text)})} tests that it names passed")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The words of docstrings, variables and commits: the field's, which a reader takes in at once."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPENINGS = {"what", "who", "whom", "whose", "how", "whether", "of", "it", "by"}
"""A docstring that opens with one of these has no noun and no verb where the reader looks for it."""
NAMES = {"found", "made", "news", "standing"}
"""They name no thing: rows, matches and paths do."""
SUBJECT_CHARACTERS, HELD_SINCE = 72, "2026-11-29T02:00:00Z"
"""Earlier commits are not held to it."""
ROOMS = sorted(path.name for path in (ROOT / "fleetgauge").iterdir() if (path / "__init__.py").is_file())


def modules(room: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted((ROOT / "fleetgauge" / room).rglob("*.py")):
        yield path, ast.parse(path.read_text())


def docstrings(module: ast.Module) -> Iterator[ast.Constant]:
    """Those of the module, its classes and functions, and of attributes: texts that stand alone."""
    for node in ast.walk(module):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


def named(module: ast.Module) -> Iterator[tuple[str, int]]:
    """Variables, parameters and fields, with their lines."""
    for node in ast.walk(module):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno


@pytest.mark.parametrize("room", ROOMS)
def test_a_docstring_opens_with_a_noun_or_a_verb(room: str) -> None:
    opening = [
        f"{path.relative_to(ROOT)}:{each.lineno}"
        for path, module in modules(room)
        for each in docstrings(module)
        if str(each.value).lower().split(maxsplit=1)[0].strip(",;:") in OPENINGS
    ]
    assert opening == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_variable_is_called_what_it_is(room: str) -> None:
    lines = [
        f"{path.relative_to(ROOT)}:{line}"
        for path, module in modules(room)
        for name, line in named(module)
        if name.strip("_") in NAMES
    ]
    assert lines == []


def test_the_subject_of_a_commit_fits_its_line() -> None:
    command = ["git", "log", "-100", f"--since={HELD_SINCE}", "--no-merges", "--format=%s"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("the commits are not known: this is not a git checkout")
    assert [each for each in listed.stdout.splitlines() if len(each) > SUBJECT_CHARACTERS] == []

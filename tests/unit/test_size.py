"""The counter of code lines that `make check` prints."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_line_counts_if_it_has_code() -> None:
    spec = importlib.util.spec_from_file_location("size", ROOT / "tools/size.py")
    assert spec is not None
    assert spec.loader is not None
    size = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(size)
    head = '"""A docstring."""\n\nimport this  # a comment\n# another\n'
    source = head + 'def f():\n    "Docs."\n    return (\n        1,\n    )\n'
    assert size.code_lines(source) == 5

"""docs/develop/telemetry-library.md: its examples run, and what it tells the caller to call is there."""

import doctest
import re
from operator import attrgetter
from pathlib import Path

from unit.telemetry.node import Node

PAGE = Path(__file__).parents[3] / "docs" / "develop" / "telemetry-library.md"


def test_the_examples_of_the_page_print_what_it_shows() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.failed == 0
    assert result.attempted >= 20


def test_every_call_that_the_page_lists_is_one_of_the_manager() -> None:
    table = PAGE.read_text().partition("\n## What the caller does\n")[2]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`([\w.]+)`", row)]
    assert len(listed) == 8
    assert [name for name in listed if not callable(attrgetter(name)(Node().manager))] == []

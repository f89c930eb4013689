"""docs/develop/quotas.md: its examples run, and it names everything that is public."""

import doctest
import re
from pathlib import Path

from fleetgauge import quotas

PAGE = Path(__file__).parents[3] / "docs" / "develop" / "quotas.md"


def test_the_examples_of_the_page_print_what_it_shows() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.failed == 0
    assert result.attempted >= 20


def test_every_public_name_stands_on_the_page() -> None:
    named = set(re.findall(r"`(\w+)", PAGE.read_text()))
    assert set(vars(quotas)["__all__"]) <= named

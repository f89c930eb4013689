import doctest
from pathlib import Path


def test_the_example_of_the_quotas_page_says_what_it_shows() -> None:
    page = Path(__file__).parents[3] / "docs" / "quotas.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.failed == 0
    assert result.attempted >= 20

"""An answer in the terminal is readable at any width."""

from io import StringIO

from pyspark.sql import Row

from fleet.report.output import print_table

ROWS = [Row("X8RGtPZaTXy5MT12z_qiwA", "orders", None), Row("8y3u2LUoR7y4inlixFAFzA", "audit", "yes")]
NAMES = ["client instance id", "client id", "terminated"]


def printed(width: int, total: int = 2) -> str:
    out = StringIO()
    print_table(out, ROWS, NAMES, total, width=width)
    return out.getvalue()


def test_a_wide_terminal_gets_one_line_a_row() -> None:
    lines = printed(100).splitlines()
    assert len(lines) == 2 + len(ROWS)
    assert "X8RGtPZaTXy5MT12z_qiwA" in lines[2]
    assert "orders" in lines[2]


def test_a_narrow_terminal_gets_one_block_a_row_and_no_value_is_broken() -> None:
    text = printed(45)
    for value in ("X8RGtPZaTXy5MT12z_qiwA", "8y3u2LUoR7y4inlixFAFzA", "orders", "audit"):
        assert value in text
    assert text.count("client instance id") == len(ROWS)


def test_what_was_left_out_is_said() -> None:
    assert "5 more of 7 rows" in printed(200, total=7)


def test_a_client_that_calls_itself_a_terminal_command_is_shown_by_its_escape() -> None:
    out = StringIO()
    print_table(out, [Row("orders\x1b[2J\nfake", "a", "b")], NAMES, 1, width=100)
    assert "\x1b" not in out.getvalue()
    assert "orders\\x1b[2J\\nfake" in out.getvalue()

"""A table is as wide as its terminal at most, and whole where there is none."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetgauge.terminal.table import SafeTable, UnknownColumnError, chosen_columns, print_rows, wide_console

HEADINGS = ("client id", "state", "pushes", "last error")
ROWS: list[dict[str, str | None]] = [
    {"client id": "orders", "state": "live", "pushes": "12,000", "last error": None},
    {"client id": "a\x1b[2J\u202eb", "state": "silent", "pushes": "7", "last error": "x" * 60},
]
LEAST = ("last error", "pushes")


def printed(width: int | None, headings: tuple[str, ...] = HEADINGS, least: tuple[str, ...] = LEAST) -> str:
    out = io.StringIO()
    print_rows(wide_console(out, width=width), headings, ROWS, right={"pushes"}, least=least)
    return out.getvalue()


def test_where_there_is_no_terminal_each_row_is_one_whole_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = io.StringIO()
    row = {"client id": "a" * 5_000, "state": "b" * 5_000}
    print_rows(wide_console(out), ("client id", "state"), [row], least=("state",))
    [line] = [line for line in out.getvalue().splitlines() if "a" * 5_000 in line]
    assert "b" * 5_000 in line


def test_columns_that_do_not_fit_are_named_with_how_to_see_them() -> None:
    text = " ".join(printed(70).split())
    assert "x" * 10 not in text
    assert "12,000" in text
    assert "1 of 4 columns do not fit: last_error." in text
    assert "--columns client_id,state,..." in text


def test_the_least_important_columns_are_left_out_first() -> None:
    assert "2 of 4 columns do not fit: pushes, last_error." in " ".join(printed(26).split())


def test_what_is_too_narrow_for_the_most_important_columns_gets_a_block_a_row() -> None:
    text = printed(20)
    assert text.count("client id") == len(ROWS)
    assert text.replace("\n", "").replace(" ", "").count("x") >= 60, "nothing is left out"


def test_columns_that_were_chosen_are_never_left_out() -> None:
    text = printed(40, headings=("last error", "client id"), least=())
    assert text.count("last error") == len(ROWS)
    assert "do not fit" not in text


@pytest.mark.parametrize("width", [16, 20, 26, 40, 70, 200])
def test_no_line_is_longer_than_the_terminal_and_none_commands_it(width: int) -> None:
    lines = printed(width).splitlines()
    assert max(map(len, lines)) <= width
    assert all(line.isprintable() for line in lines)


@pytest.mark.slow
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=30), min_size=3, max_size=3), st.integers(10, 90))
def test_whatever_the_text_no_line_is_longer_than_the_terminal(texts: list[str], width: int) -> None:
    out = io.StringIO()
    console = wide_console(out, width=width)
    print_rows(console, ("a", "b", "c"), [dict(zip("abc", texts, strict=True))], least=("c", "b"))
    assert all(line.isprintable() for line in out.getvalue().split("\n"))
    assert all(console.measure(line).maximum <= width for line in out.getvalue().split("\n"))


def test_columns_are_chosen_by_their_headings_in_any_order() -> None:
    assert chosen_columns(HEADINGS, "last_error,Client ID,last error") == ("last error", "client id")


def test_a_column_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UnknownColumnError, match=r"no column 'colour'; there are client_id,state,pushes,last_error"):
        chosen_columns(HEADINGS, "state,colour")


def test_cells_of_a_safe_table_are_neither_markup_nor_commands() -> None:
    out = io.StringIO()
    table = SafeTable()
    table.add_column("name")
    table.add_row("[red]a[/red]\x1b[31m\r\n")
    wide_console(out, width=80).print(table)
    assert r"[red]a[/red]\x1b[31m\r\n" in out.getvalue()

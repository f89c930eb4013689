"""One answer in five forms: what people read, and every row and column for programs."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from fleetgauge.terminal.answer import Answer, Format, Output, PlainRows, print_answer, record_answer
from fleetgauge.terminal.files import OutputError

ROWS: list[dict[str, Any]] = [
    {"client_id": "=1+1", "pushes": 3, "labels": {"rack": "a"}, "is_late": True, "last_error": None},
    {"client_id": "<b>\x1b[2J", "pushes": 4, "labels": {}, "is_late": False, "last_error": "timeout"},
]


def text(console: Console) -> None:
    for row in ROWS:
        console.print(row["client_id"].encode("unicode_escape").decode(), row["pushes"])


def answer(*, is_array: bool = False) -> Answer:
    return Answer(text=text, rows=PlainRows(iter(ROWS)), is_array=is_array)


def printed(value: Answer, form: Format) -> str:
    out = io.StringIO()
    print_answer(value, Output(form=form), out)
    return out.getvalue()


def test_text_is_what_the_command_prints_for_people() -> None:
    assert printed(answer(), Format.TEXT) == "=1+1 3\n<b>\\x1b[2J 4\n"


def test_html_is_the_text_as_a_page_in_which_foreign_text_is_no_markup() -> None:
    page = printed(answer(), Format.HTML)
    assert page.startswith("<!DOCTYPE html>")
    assert "&lt;b&gt;\\x1b[2J 4" in page
    assert "http" not in page.lower().replace("http-equiv", "")


def test_json_is_an_object_per_line_or_one_array_and_exact() -> None:
    lines = printed(answer(), Format.JSON).splitlines()
    assert [json.loads(line) for line in lines] == ROWS
    assert all(line.isprintable() for line in lines)
    assert json.loads(printed(answer(is_array=True), Format.JSON)) == ROWS


def test_csv_quotes_every_cell_and_none_is_a_formula() -> None:
    text = printed(answer(), Format.CSV)
    rows = list(csv.reader(io.StringIO(text)))
    assert rows == [
        ["client_id", "pushes", "labels", "is_late", "last_error"],
        ["'=1+1", "3", '{"rack":"a"}', "true", ""],
        ["<b>\\x1b[2J", "4", "{}", "false", "timeout"],
    ]
    assert text.count('"client_id"') == 1


def test_a_directory_gets_one_file_and_json_in_it_is_an_object_per_line(tmp_path: Path) -> None:
    for form in (Format.JSON, Format.CSV, Format.PARQUET):
        print_answer(answer(is_array=True), Output(form=form, output=str(tmp_path / form)), io.StringIO())
    assert (tmp_path / "json/part-0.json").read_text().count("\n") == len(ROWS)
    table = pq.read_table(tmp_path / "parquet/part-0.parquet")
    assert table["client_id"].to_pylist() == [row["client_id"] for row in ROWS]
    assert table["labels"].to_pylist() == ['{"rack":"a"}', "{}"]
    with pytest.raises(OutputError, match="exists already: name another --output"):
        print_answer(answer(), Output(form=Format.CSV, output=str(tmp_path / "csv")), io.StringIO())


def test_rows_that_end_with_an_error_leave_no_directory(tmp_path: Path) -> None:
    broken = Answer(text=text, rows=PlainRows(1 / 0 for _ in range(1)))  # type: ignore[misc]
    with pytest.raises(ZeroDivisionError):
        print_answer(broken, Output(form=Format.CSV, output=str(tmp_path / "csv")), io.StringIO())
    assert list(tmp_path.iterdir()) == []


def test_a_file_gets_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    for _ in range(2):  # the second time it is replaced
        print_answer(answer(), Output(form=Format.HTML, output=str(page)), io.StringIO())
    assert "&lt;b&gt;" in page.read_text()
    with pytest.raises(OutputError, match="there is no directory"):
        print_answer(answer(), Output(form=Format.HTML, output=str(tmp_path / "none" / "a.html")), io.StringIO())


def test_a_record_is_one_object_and_its_values_by_their_names() -> None:
    record = record_answer({"node": {"pid": 4, "listeners": ["a", "b"]}, "degraded": None}, text)
    assert json.loads(printed(record, Format.JSON)) == {"node": {"pid": 4, "listeners": ["a", "b"]}, "degraded": None}
    assert list(csv.reader(io.StringIO(printed(record, Format.CSV)))) == [
        ["name", "value"],
        ["node.pid", "4"],
        ["node.listeners.0", "a"],
        ["node.listeners.1", "b"],
        ["degraded", ""],
    ]


def test_an_empty_table_has_its_columns() -> None:
    empty = Answer(text=text, rows=PlainRows([], ("client_id", "pushes")))
    assert printed(empty, Format.CSV) == '"client_id","pushes"\r\n'
    assert printed(empty, Format.JSON) == ""


@pytest.mark.parametrize(
    ("to", "sentence"),
    [
        (Output(form=Format.PARQUET), "add --output PATH"),
        (Output(output="a"), "with --output, use --format json, csv, parquet or html"),
        (Output(form=Format.CSV, columns="pushes"), "--columns is for --format text and html"),
    ],
)
def test_options_that_do_not_go_together_are_refused(to: Output, sentence: str) -> None:
    with pytest.raises(OutputError, match=sentence):
        print_answer(answer(), to, io.StringIO())

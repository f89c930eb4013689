"""No text of a stranger commands a terminal, becomes a formula, or stops being what it was."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetgauge.terminal.text import csv_value, printable, printable_json

FORMULAS = ('=HYPERLINK("http://x","y")', "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", " =1", "\uff1d1", "\uff20x")
CONTROLS = (
    *map(chr, range(0x20)),
    *map(chr, range(0x7F, 0xA0)),
    *"\u202a\u202b\u202d\u202e\u2066\u2069\u200f\u2028\u2029",
)


@pytest.mark.parametrize("control", CONTROLS, ids=lambda each: f"U+{ord(each):04X}")
def test_no_control_character_reaches_a_person(control: str) -> None:
    assert printable(f"a{control}b").isprintable()
    assert str(csv_value(f"{control}b")).isprintable()
    assert printable_json(f'"{control}"').isprintable()


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_of_csv_is_a_formula(text: str) -> None:
    cell = str(csv_value(text))
    assert cell[0] in "'\\"
    assert cell.isprintable()


@pytest.mark.parametrize("number", [-1, -1.5, 0, 7, True])
def test_numbers_stay_numbers(number: float) -> None:
    assert csv_value(number) is number


@given(st.text())
def test_json_made_printable_is_the_same_value(text: str) -> None:
    for ensure_ascii in (True, False):
        line = printable_json(json.dumps({"text": text}, ensure_ascii=ensure_ascii))
        assert line.isprintable()
        assert json.loads(line) == {"text": text}


@given(st.lists(st.text(), min_size=1))
def test_a_row_of_any_text_is_one_line_with_as_many_cells(texts: list[str]) -> None:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerow(map(csv_value, texts))
    assert len(out.getvalue().splitlines()) == 1
    [cells] = csv.reader(io.StringIO(out.getvalue()))
    assert len(cells) == len(texts)
    assert all(cell.lstrip()[:1] not in tuple("=+-@\t\r") for cell in cells)

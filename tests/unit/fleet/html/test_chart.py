"""The geometry of plots."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from fleetgauge.fleet.html.chart import BOX, Chart, Plotted, chart, spark

BEGIN = datetime(2026, 3, 2, 6, tzinfo=UTC)


def plotted(values: list[float | None], **given: object) -> Chart:
    windows = [BEGIN + timedelta(minutes=5) * at for at in range(len(values))]
    asked = {"name": "lag", "unit": "ms", "windows": windows, "window_s": 300, "values": values, **given}
    return chart(Plotted(**asked))  # type: ignore[arg-type]


def line(found: Chart, kind: str) -> str:
    (path,) = [each.path for each in found.lines if each.kind == kind]
    return path


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)]


@pytest.mark.parametrize("values", [[0.0], [0.0, 0.0], [1e-9, 3e12], [-125_000.0, 20.0], [5.0] * 5000, [None, 1.0]])
def test_every_point_is_inside_and_the_axis_has_few_round_lines(values: list[float | None]) -> None:
    found = plotted(values)
    left, right, top, bottom = BOX
    for x, y in points(line(found, "observed")):
        assert left <= x <= right
        assert top <= y <= bottom
    assert 2 <= len(found.y_ticks) <= 8
    assert len(line(found, "observed")) < 4000


def test_what_is_not_known_interrupts_the_line_and_one_value_alone_is_a_dot() -> None:
    path = line(plotted([1.0, None, 2.0, 3.0]), "observed")
    assert path.count("M") == 2
    assert path.count("L") == 1


def test_a_larger_value_is_higher() -> None:
    (_, low), (_, high) = points(line(plotted([1.0, 2.0]), "observed"))
    assert high < low


def test_the_expected_value_is_drawn_before_what_was_usual() -> None:
    keys = [key.label for key in plotted([1.0], expected=4.0, before=2.0).keys]
    assert "expected: 4 ms" in keys
    assert plotted([1.0], before=2.0).keys[-1].label == "usual before: 2 ms"


def test_the_time_of_a_verdict_is_shaded_where_it_is_within_the_plot() -> None:
    hour = timedelta(hours=1)
    left, right, *_ = BOX
    assert plotted([1.0] * 12, lasted=(BEGIN - hour, BEGIN + hour / 2)).shade == (left, (right - left) / 2)
    assert plotted([1.0] * 12, lasted=(BEGIN - hour, BEGIN - hour / 2)).shade is None


def test_days_have_dates_and_hours_have_times() -> None:
    assert [tick.label for tick in plotted([1.0] * 13).x_ticks][:2] == ["06:00", "06:15"]
    week = [BEGIN + timedelta(hours=6) * at for at in range(28)]
    labels = [tick.label for tick in plotted([1.0] * 28, windows=week, window_s=300).x_ticks]
    assert labels[0] == "04 Mar"
    assert len(labels) <= 5


def test_a_sentence_says_what_is_drawn() -> None:
    text = plotted([1.0, 9.0, None], before=2.0).text
    assert text == "lag from 02 Mar 06:00 to 02 Mar 06:10 UTC: between 1 ms and 9 ms, last 5 ms, usually 2 ms."


def test_a_small_plot_of_nothing_is_nothing() -> None:
    assert spark([]) == spark([None, None]) == ""
    assert spark([0.0, 0.0]).startswith("M2 20")


def test_a_value_alone_is_a_dot_wider_than_the_line() -> None:
    assert spark([None, 5.0, None]) == "M60 2m-1.5 0a1.5 1.5 0 1 0 3 0a1.5 1.5 0 1 0 -3 0"
    assert spark([5.0, 5.0, None, 5.0]).count("a1.5") == 2
    assert "a" not in spark([5.0, 5.0])

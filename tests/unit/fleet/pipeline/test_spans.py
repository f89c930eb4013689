"""Which rows a run replaces: those of the windows that new pushes touch, and no condition that outgrows its reader."""

from datetime import UTC, date, datetime, timedelta

import pytest

from fleetgauge.fleet.arrow import pa, to_list
from fleetgauge.fleet.pipeline.spans import MAX_SPANS, Span, bounded, days, meets, of_windows, whole, windows, within
from fleetgauge.fleet.schemas import TIME

DAY = date(2026, 3, 1)
WINDOW = timedelta(minutes=5)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-01T{text}").replace(tzinfo=UTC)


def chosen(spans: list[Span], *times: datetime) -> list[datetime]:
    rows = pa.table({"date": pa.array([each.date() for each in times]), "at": pa.array(times, TIME)})
    found: list[datetime] = to_list(rows.filter(within(spans, "at"))["at"])
    return found


def test_a_push_touches_its_whole_window_and_no_other() -> None:
    spans = of_windows([at("12:05:00")], 300)
    inside = [at("12:05:00"), at("12:09:59.999999")]
    assert chosen(spans, at("12:04:59.999999"), *inside, at("12:10:00")) == inside


def test_windows_between_two_that_are_touched_are_not() -> None:
    spans = of_windows([at("12:00:00"), at("14:00:00")], 3_600)
    assert chosen(spans, at("12:30:00"), at("13:30:00"), at("14:30:00")) == [at("12:30:00"), at("14:30:00")]
    assert windows(spans, 3_600) == [at("12:00:00"), at("14:00:00")]


def test_windows_that_follow_one_another_are_one_span_also_over_midnight() -> None:
    starts = [at("23:50:00") + number * WINDOW for number in range(4)]
    assert of_windows(reversed(starts), 300) == [(starts[0], starts[-1] + WINDOW)]
    assert days(of_windows(starts, 300)) == [DAY, DAY + timedelta(days=1)]
    assert days(of_windows(starts[:2], 300)) == [DAY], "it ends at midnight, which is the next day's"


def test_of_very_many_spans_their_whole_days_are_taken() -> None:
    starts = [at("00:00:00") + number * 2 * WINDOW for number in range(MAX_SPANS + 1)]
    assert bounded(of_windows(starts, 300)) == [whole(DAY)]
    assert bounded(of_windows(starts[1:], 300)) == of_windows(starts[1:], 300)


def test_no_span_is_no_time() -> None:
    assert chosen([], at("12:00:00")) == []


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("11:00:00", "11:59:59", False),
        ("11:00:00", "12:00:00", True),
        ("12:01:00", "12:02:00", True),
        ("12:05:00", "12:10:00", False),
        ("12:05:00", "12:20:00", True),
        ("11:00:00", "13:00:00", True),
        ("12:25:00", "12:30:00", False),
    ],
)
def test_a_file_is_of_a_span_if_it_may_have_a_row_in_it(first: str, last: str, expected: bool) -> None:
    assert meets(of_windows([at("12:00:00"), at("12:20:00")], 300), at(first), at(last)) == expected

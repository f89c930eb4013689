"""Which rows a run replaces: those of the windows that new pushes touch, and no condition that outgrows its parser."""

from datetime import UTC, date, datetime, timedelta

from fleet.pipeline.spans import MAX_SPANS, of_windows, whole, within

DAY = date(2026, 3, 1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-01T{text}").replace(tzinfo=UTC)


def test_a_push_touches_its_whole_window_and_no_other() -> None:
    assert of_windows((at("12:05:00"), at("12:05:00")), 300) == (at("12:05:00"), at("12:09:59.999999"))


def test_windows_that_do_not_divide_an_hour_are_counted_from_midnight() -> None:
    assert of_windows((at("01:40:00"), at("03:00:00")), 5_760) == (at("01:36:00"), at("03:11:59.999999"))


def test_the_last_window_ends_with_its_day() -> None:
    assert of_windows((at("00:00:00"), at("23:59:59.999999")), 3_600) == whole(DAY)


def test_the_condition_names_day_and_times_of_each_span() -> None:
    assert within({DAY: (at("12:00:00"), at("12:04:59.999999"))}, "window_start") == (
        "date IN (DATE'2026-03-01') AND (date = DATE'2026-03-01' AND window_start BETWEEN "
        "TIMESTAMP'2026-03-01 12:00:00.000000' AND TIMESTAMP'2026-03-01 12:04:59.999999')"
    )


def test_of_very_many_days_whole_ones_are_taken() -> None:
    days = [DAY + timedelta(days=number) for number in range(MAX_SPANS + 1)]
    assert " BETWEEN " not in within({day: whole(day) for day in days}, "window_start")

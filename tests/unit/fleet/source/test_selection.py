from datetime import UTC, datetime

import pytest

from fleetgauge.fleet.source.selection import SelectionError, parse_instance_ids, parse_time

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", "2026-03-01T11:58:30+00:00"),
        ("30m", "2026-03-01T11:30:00+00:00"),
        ("2h", "2026-03-01T10:00:00+00:00"),
        ("7d", "2026-02-22T12:00:00+00:00"),
        ("today", "2026-03-01T00:00:00+00:00"),
        ("yesterday", "2026-02-28T00:00:00+00:00"),
        ("2026-01-31", "2026-01-31T00:00:00+00:00"),
        ("2026-01-31T08:00", "2026-01-31T08:00:00+00:00"),
        ("2026-01-31T08:00:00+02:00", "2026-01-31T06:00:00+00:00"),
        ("2026-01-31T08:00:00Z", "2026-01-31T08:00:00+00:00"),
    ],
)
def test_an_age_or_a_time_is_a_time_in_utc(text: str, expected: str) -> None:
    assert parse_time(text, NOW).isoformat() == expected


@pytest.mark.parametrize(
    "text", ["", "last week", "2x", "-1h", "999999999d", "\u0661h", "2026-13-01", "9999-12-31T23:00-05:00"]
)
def test_what_is_no_time_is_refused_with_the_forms_that_are(text: str) -> None:
    with pytest.raises(SelectionError, match="ISO 8601"):
        parse_time(text, NOW)


@pytest.mark.parametrize(
    "text",
    [
        "Tm-1TLjmRReIm-FbmcCcIA",
        "Tm+1TLjmRReIm+FbmcCcIA==",
        "4e6fb54cb8e64517889be15b99c09c20",
        "4e6fb54c-b8e6-4517-889b-e15b99c09c20",
    ],
)
def test_an_instance_id_is_found_in_the_form_of_any_clients_log(text: str) -> None:
    assert parse_instance_ids([text]) == ("Tm-1TLjmRReIm-FbmcCcIA",)


def test_what_is_no_instance_id_is_refused_by_name() -> None:
    with pytest.raises(SelectionError, match="'nobody' is not a client instance id"):
        parse_instance_ids(["nobody"])

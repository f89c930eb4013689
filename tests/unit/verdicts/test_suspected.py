"""What is told before a verdict opens."""

import pytest
from unit.verdicts.fleets import Judged, Row, client

from fleetgauge.verdicts.rules import default_rules
from fleetgauge.verdicts.suspected import first_verdicts_us, suspected

TINY: Row = {"fetch_rate_per_s": 100.0, "fetch_size_avg_bytes": 100.0}
USUAL: Row = {"fetch_rate_per_s": 100.0, "fetch_size_avg_bytes": 50_000.0}
FOR_S = default_rules()["tiny-fetches"]["for_s"]


def reader(*figures: Row) -> Judged:
    judged = Judged()
    judged.windows(len(figures), lambda number: [client("reader", **figures[number])])
    return judged


def test_a_case_that_has_not_lasted_is_suspected_until_it_opens() -> None:
    judged = reader(USUAL, TINY)
    [row] = suspected(judged.memory, default_rules())
    assert (row["verdict"], row["subject"], row["for_s"]) == ("tiny-fetches", "reader", FOR_S)
    assert 0 < row["lasted_s"] < FOR_S
    assert row["opens_us"] - judged.memory.judged_to_us == pytest.approx((FOR_S - row["lasted_s"]) * 1e6)
    opened = reader(USUAL, *[TINY] * 4)
    assert [each["verdict"] for each in opened.rows] == ["tiny-fetches"]
    assert suspected(opened.memory, default_rules()) == []


def test_what_has_been_well_since_is_not_suspected() -> None:
    assert suspected(reader(TINY, USUAL).memory, default_rules()) == []
    assert suspected(reader(USUAL, USUAL).memory, default_rules()) == []


def test_the_first_verdicts_can_come_when_the_shortest_has_lasted() -> None:
    young, older = reader(USUAL), reader(*[USUAL] * 12)
    first_us = first_verdicts_us(young.memory, default_rules())
    assert first_us is None or first_us > young.memory.judged_to_us
    assert first_verdicts_us(older.memory, default_rules()) is None
    assert first_verdicts_us(Judged().memory, default_rules()) is None

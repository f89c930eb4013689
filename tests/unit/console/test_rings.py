"""An hour of values by minute."""

import numpy as np

from fleetgauge.console.state.rings import LINKS_MAX, MINUTES, Rings


def size_bytes(rings: Rings) -> int:
    return sum(ring._values.nbytes + ring._row_of.nbytes for ring in rings._all())


def values(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float64)


def at(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def test_values_are_in_the_order_of_their_minutes_and_an_hour_old_ones_are_gone() -> None:
    rings = Rings(["lag"])
    for minute in range(100, 100 + MINUTES + 10):
        assert rings.advance(minute)
        rings.put("lag", at(3), values(minute), minute)
    row = rings.row("lag", 3)
    assert row is not None
    assert row.tolist() == list(range(110, 170))
    assert rings.minutes().tolist() == list(range(110, 170))
    assert not rings.advance(109)
    assert rings.advance(111)


def test_a_gap_in_time_clears_what_it_passes() -> None:
    rings = Rings(["lag"])
    rings.advance(10)
    rings.put("lag", at(0), values(1), 10)
    rings.advance(10 + MINUTES - 1)
    assert rings.row("lag", 0) is not None
    rings.advance(10 + 5 * MINUTES)
    assert rings.row("lag", 0) is None


def test_the_latest_value_of_each_client_is_found_whatever_its_minute() -> None:
    rings = Rings(["lag"])
    rings.advance(10)
    rings.put("lag", at(0, 1), values(5, np.nan), 10)
    rings.advance(12)
    rings.put("lag", at(2), values(7), 12)
    assert np.array_equal(rings.latest("lag", at(2, 1, 0, 99)), values(7, np.nan, 5, np.nan), equal_nan=True)


def test_a_measure_that_a_client_does_not_send_takes_no_row() -> None:
    rings = Rings(["lag", "idle"])
    rings.advance(1)
    rings.put("lag", np.arange(10_000), np.ones(10_000), 1)
    size = size_bytes(rings)
    rings.put("idle", np.arange(10_000), np.full(10_000, np.nan), 1)
    assert size_bytes(rings) == size
    assert rings.row("idle", 5) is None


def test_the_row_of_a_client_that_is_dropped_is_empty_when_another_gets_it() -> None:
    rings = Rings(["lag"])
    rings.advance(1)
    rings.put("lag", at(0, 1), values(4, 5), 1)
    rings.put_links([0, 1], [7, 7], values(1, 2), values(3, 4), 1)
    size = size_bytes(rings)
    for _ in range(1_000):
        rings.drop([0])
        assert rings.row("lag", 0) is None
        assert rings.links_by_node() == {7: [1]}
        rings.put("lag", at(0), values(6), 1)
        rings.put_links([0], [7], values(3), values(np.nan), 1)
    assert size_bytes(rings) == size
    assert rings.link_row(1, 7)[-1] == 2  # type: ignore[index]
    assert rings.link_row(0, 7)[-1] == 3  # type: ignore[index]
    assert np.isnan(rings.broker_times([(0, 7)])).all()
    assert rings.broker_times([(1, 7)])[:, -1].tolist() == [4]


def test_a_client_that_names_a_thousand_nodes_keeps_few() -> None:
    rings = Rings(["lag"])
    rings.advance(1)
    rings.put_links([0] * 1_000, list(range(1_000)), np.ones(1_000), np.ones(1_000), 1)
    assert len(rings.nodes_of(0)) == LINKS_MAX
    assert rings.link_row(0, 999) is None

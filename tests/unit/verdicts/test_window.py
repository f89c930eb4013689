"""Numbers for texts and keys, and medians of groups, against NumPy's own."""

from typing import Literal

import numpy as np
import pyarrow as pa
import pytest

from fleetgauge.verdicts.arrow import is_valid, numbers_at
from fleetgauge.verdicts.registry import Names
from fleetgauge.verdicts.window import medians, numbered, order_of


@pytest.mark.parametrize("count", [1, 3, 50, 500, 900, 70_000])
@pytest.mark.parametrize("low", [False, True])
def test_medians_are_those_of_each_group(count: int, low: bool) -> None:
    random = np.random.default_rng(count)
    groups, values = random.integers(-1, count, 5000), random.normal(0, 9, 5000)
    values[random.random(5000) < 0.1] = np.nan
    found = medians(groups, values, count, low=low)
    method: Literal["lower", "linear"] = "lower" if low else "linear"
    for group in random.integers(0, count, 200).tolist():
        own = values[(groups == group) & ~np.isnan(values)]
        expected = np.quantile(own, 0.5, method=method) if len(own) else np.nan
        np.testing.assert_allclose(found[group], expected)


def test_medians_leave_what_they_are_given_as_it_is() -> None:
    values = np.arange(100.0)[::-1].copy()
    medians(np.zeros(100, np.int64), values, 1)
    assert values.tolist() == list(range(99, -1, -1))


@pytest.mark.parametrize("most", [5, 100_000, 2**60])
def test_keys_are_numbered_in_their_order(most: int) -> None:
    keys = np.random.default_rng(1).integers(-3, most, 2000)
    distinct, place = np.unique(keys, return_inverse=True)
    found = numbered(keys)
    np.testing.assert_array_equal(found[0], distinct)
    np.testing.assert_array_equal(found[1], place)
    assert [len(each) for each in numbered(keys[:0])] == [0, 0]


@pytest.mark.parametrize("most", [5, 200_000, 2**40])
def test_the_order_of_equal_numbers_is_kept(most: int) -> None:
    groups = np.random.default_rng(2).integers(0, most, 50_000)
    np.testing.assert_array_equal(order_of(groups), np.argsort(groups, kind="stable"))


def test_names_keep_their_numbers_until_they_are_forgotten() -> None:
    names = Names()
    cluster, client = pa.array(["c", "c", None, "d"]), pa.array(["a", "b", "a", "a"])
    assert names.codes(cluster, client, at_us=7).tolist() == [0, 1, 2, 3]
    assert names.codes(cluster.slice(3), client.slice(3), at_us=9).tolist() == [3]
    assert (names.parts(2), names.seen_us.tolist()) == (["", "a"], [7, 7, 7, 9])
    assert Names.of(names.table()).codes(cluster, client).tolist() == [0, 1, 2, 3]
    assert names.keep(names.seen_us > 7).tolist() == [-1, -1, -1, 0]
    assert names.codes(cluster, client, at_us=11).tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.float64()])
@pytest.mark.parametrize("nulls", ["none", "some", "all"])
@pytest.mark.parametrize("begin", [0, 3, 17])
def test_numbers_of_some_rows_are_those_that_arrow_takes(kind: pa.DataType, nulls: str, begin: int) -> None:
    random = np.random.default_rng(begin)
    is_null = {"none": np.zeros(50, bool), "some": random.random(50) < 0.5, "all": np.ones(50, bool)}[nulls]
    column = pa.array(random.integers(0, 99, 50), kind, mask=is_null).slice(begin)
    at = random.permutation(len(column))[:20]
    expected = column.take(at).cast(pa.float64()).to_numpy(zero_copy_only=False)
    np.testing.assert_array_equal(numbers_at(column, at), expected)
    np.testing.assert_array_equal(is_valid(column), column.is_valid().to_numpy(zero_copy_only=False))
    assert len(numbers_at(column.slice(0, 0), at[:0])) == 0

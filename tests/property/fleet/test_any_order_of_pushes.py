"""Silver tables of pushes in twenty orders, and of batches that are cut off before any of their writes."""

from pathlib import Path

import pytest
from support.silver_in_disorder import WRITES, read_cut_off, read_in_disorder, read_in_order, same


@pytest.mark.parametrize("seed", range(20))
def test_any_order_split_and_repetition_of_pushes_gives_the_same_tables(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = read_in_disorder(
        tmp_path / "found",
        seed,
        monkeypatch,
        batches=(2, 5, 20)[seed % 3],
        rows_at_once=25 if seed % 5 == 0 else 1024,
    )
    same(found, read_in_order(tmp_path / "expected", seed))


@pytest.mark.parametrize("before", WRITES)
def test_batches_that_are_cut_off_before_any_write_are_whole_when_they_ran_again(before: str, tmp_path: Path) -> None:
    found = read_cut_off(tmp_path / "found", 8, [before] * 3)
    same(found, read_in_order(tmp_path / "expected", 8))

"""Ages are counted by what was seen to pass, over restarts and boots, and never twice."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fleetgauge.push_log.embedded.retention.ages import Ages, boot_id

DAY_MS = 24 * 3_600_000
WEEK_MS = 7 * DAY_MS


def ages(tmp_path: Path, boot: str = "first") -> Ages:
    return Ages(tmp_path / "ages.db", WEEK_MS, boot=boot)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Ages]:
    with closing(ages(tmp_path)) as made:
        yield made


def test_a_number_is_aged_after_the_retention_and_not_before(kept: Ages) -> None:
    assert kept.aged(3, 500) == 0
    assert kept.aged(3, 500 + WEEK_MS - 1) == 0
    assert kept.aged(9, 500 + WEEK_MS) == 3


def test_what_came_between_two_marks_ages_with_the_later_one(kept: Ages) -> None:
    step_ms = WEEK_MS // 1_000
    assert kept.aged(1, 0) == 0
    assert kept.aged(2, step_ms - 1) == 0
    assert kept.aged(3, step_ms) == 0
    assert kept.aged(3, WEEK_MS + step_ms - 1) == 1
    assert kept.aged(3, WEEK_MS + step_ms) == 3


def test_a_restart_within_one_boot_counts_the_time_in_which_no_process_ran(tmp_path: Path) -> None:
    with closing(ages(tmp_path)) as before:
        before.aged(3, 1_000)
    with closing(ages(tmp_path)) as after:
        assert after.aged(3, 1_000 + WEEK_MS) == 3


def test_the_time_between_two_boots_does_not_count(tmp_path: Path) -> None:
    with closing(ages(tmp_path)) as before:
        before.aged(3, 1_000)
        before.aged(4, 1_000 + DAY_MS)
    with closing(ages(tmp_path, "second")) as after:
        assert after.aged(4, 99 * WEEK_MS) == 0
        assert after.aged(4, 99 * WEEK_MS + WEEK_MS - DAY_MS - 1) == 0
        assert after.aged(4, 99 * WEEK_MS + WEEK_MS - DAY_MS) == 3
        assert after.aged(4, 99 * WEEK_MS + WEEK_MS) == 4


def test_two_processes_do_not_count_the_same_time_twice(tmp_path: Path) -> None:
    with closing(ages(tmp_path)) as one, closing(ages(tmp_path)) as other:
        for day in range(7):
            assert one.aged(1, day * DAY_MS) == other.aged(1, day * DAY_MS) == 0
        assert one.aged(1, WEEK_MS) == other.aged(1, WEEK_MS) == 1


def test_numbers_that_begin_again_begin_their_ages_again(kept: Ages) -> None:
    kept.aged(9, 0)
    assert kept.aged(9, WEEK_MS) == 9
    assert kept.aged(1, WEEK_MS + 1) == 0
    assert kept.aged(1, 2 * WEEK_MS) == 0
    assert kept.aged(1, 2 * WEEK_MS + 1) == 1


def test_a_monotonic_clock_that_runs_backwards_within_a_boot_counts_nothing(kept: Ages) -> None:
    kept.aged(1, WEEK_MS)
    assert kept.aged(1, 0) == 0
    assert kept.aged(1, WEEK_MS) == 0


@pytest.mark.slow
def test_the_marks_stay_few(kept: Ages, tmp_path: Path) -> None:
    for number in range(1, 6_001):
        kept.aged(number, number * WEEK_MS // 2_000)
    count = kept._connection.execute("SELECT count(*) FROM marks").get  # nothing else tells what the file holds
    assert count <= 1_002


def test_all_processes_of_a_boot_name_it_alike() -> None:
    assert boot_id() == boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()

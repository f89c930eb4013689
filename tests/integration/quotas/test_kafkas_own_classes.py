"""Kafka's own Java classes say the same as ours: same values within 1e-9, same violations, same waits."""

from collections.abc import Callable

import pytest
from support.quota_oracle import QuotaOracle, Script, same
from support.quota_scenarios import connection_script, replication_script, sensor_script

pytestmark = pytest.mark.integration

KINDS = [
    pytest.param(sensor_script, 150, id="sensors"),
    pytest.param(replication_script, 25, id="replication"),
    pytest.param(connection_script, 20, id="connections"),
]


@pytest.mark.parametrize(("script", "count"), KINDS)
def test_random_sequences_give_the_values_of_kafkas_own_classes(
    oracle: QuotaOracle, script: Callable[[int], Script], count: int
) -> None:
    different = oracle.differences([script(seed) for seed in range(count)])
    assert not different, f"{len(different)} answers differ:\n" + "\n".join(different[:5])


@pytest.mark.soak
@pytest.mark.parametrize(("script", "count"), KINDS)
def test_very_many_random_sequences_give_the_values_of_kafkas_own_classes(
    oracle: QuotaOracle, script: Callable[[int], Script], count: int
) -> None:
    for first in range(1_000, 1_000 + 20 * count, count):
        different = oracle.differences([script(seed) for seed in range(first, first + count)])
        assert not different, f"{len(different)} answers differ:\n" + "\n".join(different[:5])


def test_the_comparison_sees_a_billionth_and_every_word() -> None:
    assert same("violation m0 10.5 10.0 12", "violation m0 10.500000001 10.0 12")
    assert not same("violation m0 10.5 10.0 12", "violation m0 10.50000002 10.0 12")
    assert not same("violation m0 10.5 10.0 12", "violation m0 10.5 10.0 13")
    assert not same("ok", "violation m0 10.5 10.0 12")
    assert not same("NaN", "0.0")
    assert same("nan 9223372036854775807", "NaN 9.223372036854776E18")

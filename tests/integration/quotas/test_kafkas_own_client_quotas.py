"""Kafka's own quota managers of clients say the same as ours: waits, refusals, limits in force, metrics and tags."""

import pytest
from integration.quotas.client_quota_scenarios import client_script
from support.quotas.quota_oracle import QuotaOracle

pytestmark = pytest.mark.integration

COUNT = 60


def test_random_usage_and_limits_give_the_answers_of_kafkas_own_managers(oracle: QuotaOracle) -> None:
    different = oracle.differences([client_script(seed) for seed in range(COUNT)])
    assert not different, f"{len(different)} answers differ:\n" + "\n".join(different[:5])


@pytest.mark.soak
def test_very_much_random_usage_gives_the_answers_of_kafkas_own_managers(oracle: QuotaOracle) -> None:
    for first in range(1_000, 1_000 + 20 * COUNT, COUNT):
        different = oracle.differences([client_script(seed) for seed in range(first, first + COUNT)])
        assert not different, f"{len(different)} answers differ:\n" + "\n".join(different[:5])

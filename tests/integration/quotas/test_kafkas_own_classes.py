"""Kafka's own Java classes say the same as ours: same values within 1e-9, same violations, same waits."""

import math
from collections.abc import Callable

import pytest
from support.quotas.limit_scenarios import limit_script
from support.quotas.quota_oracle import QuotaOracle, Script, same
from support.quotas.quota_scenarios import connection_script, replication_script, sensor_script

from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.quotas import USER_AND_CLIENT_QUOTA_KEYS, ConnectionQuotaConfig, checked_quota_value

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


def test_kafkas_own_classes_take_the_same_limits_and_refuse_the_others_in_the_same_words(oracle: QuotaOracle) -> None:
    script = limit_script()
    assert sum(each.startswith("refused") for each in script.expected) > 100
    different = oracle.differences([script])
    assert not different, f"{len(different)} answers differ:\n" + "\n".join(different[:5])


def test_kafka_takes_two_limits_that_are_refused_here(oracle: QuotaOracle) -> None:
    """No number, and a negative number of connections, which lets none in as 0 does."""
    script = Script("refused here alone")
    script.say("new limits", "new")
    script.say("entity users producer_byte_rate NaN")
    script.say("broker max.connections.per.ip.overrides 192.0.2.1:-1")
    assert not oracle.differences([script])
    with pytest.raises(InvalidConfigError, match="greater than 0"):
        checked_quota_value(USER_AND_CLIENT_QUOTA_KEYS, "producer_byte_rate", math.nan)
    with pytest.raises(InvalidConfigError, match=r"-1 .*192\.0\.2\.1"):
        ConnectionQuotaConfig(max_connections_per_ip_overrides={"192.0.2.1": -1})


def test_the_comparison_sees_a_billionth_and_every_word() -> None:
    assert same("violation m0 10.5 10.0 12", "violation m0 10.500000001 10.0 12")
    assert not same("violation m0 10.5 10.0 12", "violation m0 10.50000002 10.0 12")
    assert not same("violation m0 10.5 10.0 12", "violation m0 10.5 10.0 13")
    assert not same("ok", "violation m0 10.5 10.0 12")
    assert not same("NaN", "0.0")
    assert same("nan 9223372036854775807", "NaN 9.223372036854776E18")

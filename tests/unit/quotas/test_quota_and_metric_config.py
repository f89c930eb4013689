import math

import pytest

import fleetgauge.quotas.metrics.quota
from fleetgauge.quotas.metrics.metric_config import MetricConfig
from fleetgauge.quotas.metrics.quota import Quota


def test_an_upper_bound_accepts_itself_and_what_is_below() -> None:
    quota = Quota.upper_bound(5)
    assert [quota.acceptable(value) for value in (-1.0, 5.0, 5.000001)] == [True, True, False]


def test_a_lower_bound_accepts_itself_and_what_is_above() -> None:
    quota = Quota.lower_bound(5)
    assert [quota.acceptable(value) for value in (4.999999, 5.0, 6.0)] == [False, True, True]


def test_quotas_are_equal_by_bound_and_direction() -> None:
    assert Quota.upper_bound(5) == Quota.upper_bound(5.0)
    assert Quota.upper_bound(5) != Quota.lower_bound(5)
    assert str(Quota.upper_bound(5)) == "upper=5.0"
    assert str(Quota.lower_bound(2)) == "lower=2.0"


@pytest.mark.replaces
def test_a_bound_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        Quota.upper_bound(math.nan)
    plain = fleetgauge.quotas.metrics.quota.__file__.endswith(".py")
    for bound in ("5", True) if plain else ("5",):
        with pytest.raises(TypeError, match="number"):
            Quota.upper_bound(bound)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="number"):
            Quota(bound, upper=True)  # type: ignore[arg-type]


def test_the_defaults_of_a_metric_config_are_kafkas() -> None:
    config = MetricConfig()
    assert (config.samples, config.time_window_ms, config.event_window, config.quota, config.tags) == (
        2,
        30_000,
        2**63 - 1,
        None,
        {},
    )


@pytest.mark.parametrize("name", ["samples", "time_window_ms", "event_window"])
def test_a_metric_config_refuses_a_size_below_one_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        MetricConfig(**{name: 0})  # type: ignore[arg-type]


def test_another_quota_keeps_the_sampling() -> None:
    config = MetricConfig(samples=11, time_window_ms=1_000, tags={"a": "b"})
    assert config.with_quota(Quota.upper_bound(7)) == MetricConfig(
        samples=11, time_window_ms=1_000, tags={"a": "b"}, quota=Quota.upper_bound(7)
    )

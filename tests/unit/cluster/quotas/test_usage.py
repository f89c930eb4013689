"""What is asked of `fleet whatif`, and what its rows say of a limit."""

import json
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from fleetgauge.cluster.errors import ResourceError
from fleetgauge.cluster.quotas.limits import LimitName, read_entity
from fleetgauge.cluster.quotas.usage import Usage, usage

STRANGE = read_entity("users/a,b%25=%3Cdefault>/clients/<default>")
LIMITS: dict[LimitName, float] = {
    (STRANGE, "producer_byte_rate"): 10.0,
    (STRANGE, "request_percentage"): 1.0,
    (read_entity("ips/<default>"), "connection_creation_rate"): 1.0,
}


def answering(monkeypatch: pytest.MonkeyPatch, code: int, out: str, err: str = "") -> list[list[str]]:
    """Stands in for the command; returns the words that it is run with."""
    ran: list[list[str]] = []

    def run(command: list[str], **_: Any) -> SimpleNamespace:
        ran.append(command)
        return SimpleNamespace(returncode=code, stdout=out, stderr=err)

    monkeypatch.setattr(subprocess, "run", run)
    return ran


def test_only_byte_rates_are_asked_for_and_every_name_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = answering(monkeypatch, 0, "[]")
    assert usage(LIMITS, "./fleet", "1h") == {}
    asked = ran[0][ran[0].index("--quota") + 1]
    assert asked == "user=a%2Cb%25%3D%3Cdefault%3E,client-id=<default>,producer_byte_rate=10.0"
    assert ran[0].count("--quota") == 1
    row = {"quota": asked.rpartition(",")[0], "quota_key": "producer_byte_rate", "instances": 1}
    answering(
        monkeypatch, 0, json.dumps([{**row, "instances_without_bytes": 1, "peak_ratio": None, "throttled": None}])
    )
    unknown = Usage(utilization=None, instances=1, without_bytes=1, throttled=0)
    assert usage(LIMITS, "./fleet", "1h") == {(STRANGE, "producer_byte_rate"): unknown}


def test_a_default_is_used_as_far_as_by_those_who_use_most_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"quota": "client-id=<default>", "quota_key": "consumer_byte_rate", "instances_without_bytes": 0}
    rows = [
        {**row, "instances": 2, "peak_ratio": 0.25, "throttled": False},
        {**row, "instances": 3, "peak_ratio": 1.5, "throttled": True},
        {**row, "instances": 1, "peak_ratio": None, "throttled": None, "instances_without_bytes": 1},
    ]
    answering(monkeypatch, 0, json.dumps(rows))
    place = (read_entity("clients/<default>"), "consumer_byte_rate")
    found = usage({place: 1.0}, "./fleet", "1h")
    assert found == {place: Usage(utilization=1.5, instances=6, without_bytes=1, throttled=1)}


def test_without_such_limits_nothing_is_run_and_a_failure_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = answering(monkeypatch, 1, "", "there are no tables\n")
    assert usage({(STRANGE, "request_percentage"): 1.0}, "./fleet", "1h") == {}
    assert ran == []
    with pytest.raises(ResourceError, match=r"^there are no tables$"):
        usage(LIMITS, "./fleet", "1h")

"""A reporter that never finishes an export: clients are answered, and what it holds is bounded."""

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from support.clients.abuse import answer_of, connections
from support.clients.raw_client import get_request, parse_get, parse_push, push_request
from support.payloads.payloads import metrics_data
from support.programs.node import Node

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]  # long in make soak, on a busy machine
MIB = 1024 * 1024
Attacked = Callable[..., AbstractContextManager[Node]]


@pytest.mark.parametrize("pushes", [200, pytest.param(2_000, marks=pytest.mark.soak)])
def test_it_holds_64_mib_of_pushes_and_is_then_passed_over(
    attacked: Attacked, pushes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    payload = metrics_data(9_000)
    assert 800_000 < len(payload) < MIB
    overrides = (
        "metric.reporters=integration.abuse.hanging_reporter.HangingReporter",
        "plugin.export.timeout.ms=20000",
        # One sender makes all these pushes, each under a new id: 1.8 GB of first pushes at full size.
        "telemetry.max.byte.rate.per.ip=0",
        f"push.log.retention.bytes={16 * 1024 * MIB}",
    )
    with attacked(*overrides, most_bytes=320 * MIB) as node, connections(node.port, 1) as (connection,):
        for number in range(pushes):
            connection.sendall(get_request(number, uuid.uuid4()))
            subscription = parse_get(answer_of(connection)[5:])
            connection.sendall(
                push_request(number, subscription.client_instance_id, subscription.subscription_id, payload)
            )
            assert parse_push(answer_of(connection)[5:]).error_code == 0
        errors = node.status()["telemetry"]["plugin_errors"]["HangingReporter"]
        assert errors >= pushes - 90, "pushes beyond the bound were not passed over"

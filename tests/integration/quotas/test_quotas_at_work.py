"""Quotas on a running node, at which real clients push: who is over them is slowed, and nobody's telemetry goes off."""

from pathlib import Path

import pytest
from support.node import Node
from support.raw_client import RawClient

pytestmark = pytest.mark.integration

EACH_QUARTER_SECOND = '[client-metrics.all]\nmetrics = "*"\ninterval.ms = 250\n'


def test_a_client_over_its_request_quota_is_held_and_pushes_on(tmp_path: Path) -> None:
    quotas = '[quotas."users/ANONYMOUS/clients/slow"]\nrequest_percentage = 0.001\n'
    with Node(tmp_path, config=EACH_QUARTER_SECOND + quotas) as node:
        with RawClient(node.port, client_id="slow") as slow, RawClient(node.port, client_id="other") as other:
            subscription = slow.get()
            answers = [slow.push(subscription, b"") for _ in range(2)]
            assert other.get().throttle_time_ms == 0, "others are not"
        status = node.wait_for(lambda s: not s["quotas"]["channels_held"], what="the throttle to end")
        assert subscription.throttle_time_ms == 1000
        assert [(each.error_code, each.throttle_time_ms) for each in answers] == [(0, 1000), (0, 1000)]
        assert status["quotas"]["requests_throttled"] == 3

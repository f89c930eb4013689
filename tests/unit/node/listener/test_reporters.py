"""Reporters of `metric.reporters` that misbehave at the start or the end of a node."""

import asyncio
import threading
import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from fleetgauge.base.clock import MockTime
from fleetgauge.base.errors import ConfigError
from fleetgauge.node.config.load import load_config
from fleetgauge.node.listener.reporters import Reporters
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.telemetry.plugin import ClientTelemetryPayload, MetricsContext, RequestContext

closed: list[str] = []


class Good:
    def configure(self, configs: Any) -> None: ...

    def context_change(self, context: Any) -> None: ...

    def init(self, metrics: Any) -> None: ...

    def metric_change(self, metric: Any) -> None: ...

    def metric_removal(self, metric: Any) -> None: ...

    def close(self) -> None:
        closed.append("good")


class ClosesBadly(Good):
    def close(self) -> None:
        closed.append("bad")
        raise RuntimeError("cannot")


class ConfiguresBadly(Good):
    def configure(self, configs: Any) -> None:
        raise ValueError("needs my.endpoint")


def reporters(
    monkeypatch: pytest.MonkeyPatch, labels: Mapping[str, str] = MappingProxyType({}), **classes: type
) -> Reporters:
    closed.clear()
    monkeypatch.setattr("fleetgauge.node.listener.reporters.load_reporter", lambda name: classes[name]())
    return Reporters(tuple(classes), Metrics(time=MockTime()), {}, node_id=1, cluster_id="c", labels=labels)


contexts: list[MetricsContext] = []


class KeepsItsContext(Good):
    def context_change(self, context: MetricsContext) -> None:
        contexts.append(context)


def test_the_metrics_context_has_broker_cluster_and_the_operators_own_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The labels of `kafka.server.Server.createKafkaMetricsContext` and `KafkaMetricsContext` (4.3.1)."""
    contexts.clear()
    labels = load_config(overrides=["metrics.context.region=eu", "metrics.context.rack.row=7"]).metrics_context
    reporters(monkeypatch, labels, keeps=KeepsItsContext).close()
    (context,) = contexts
    assert context.namespace == "kafka.server"
    assert dict(context.labels) == {
        "_namespace": "kafka.server",
        "kafka.cluster.id": "c",
        "kafka.node.id": "1",
        "region": "eu",
        "rack.row": "7",
    }


def test_a_reporter_that_fails_to_close_does_not_keep_the_next_from_being_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reporters(monkeypatch, bad=ClosesBadly, good=Good).close()
    assert closed == ["bad", "good"]


def test_a_reporter_that_refuses_its_configuration_stops_the_start_by_name_and_the_others_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigError, match=r"metric\.reporters: picky does not start: .*needs my\.endpoint"):
        reporters(monkeypatch, good=Good, picky=ConfiguresBadly)
    assert "good" in closed


class Blocks(Good):
    def client_receiver(self) -> "Blocks":
        return self

    def export_metrics(self, context: Any, payload: Any) -> None:
        threads.append(threading.current_thread().name)


class Follows(Good):
    """Notes what is called."""

    def __init__(self) -> None:
        calls.clear()

    def configure(self, configs: Any) -> None:
        calls.append("configure")

    def context_change(self, context: Any) -> None:
        calls.append(f"context_change of {context.labels['kafka.cluster.id']} {context.labels['kafka.node.id']}")

    def init(self, metrics: Any) -> None:
        calls.append("init")

    def client_receiver(self) -> "Follows":
        calls.append("client_receiver")
        return self

    def export_metrics(self, context: Any, payload: Any) -> None: ...


calls: list[str] = []


def test_a_reporter_is_given_its_context_before_it_is_asked_for_a_receiver(monkeypatch: pytest.MonkeyPatch) -> None:
    reporters(monkeypatch, follows=Follows).close()
    assert calls == [
        "configure",
        "context_change of c 1",
        "init",
        "client_receiver",
    ]


threads: list[str] = []


def test_a_receiver_is_called_on_a_thread_of_its_reporter(monkeypatch: pytest.MonkeyPatch) -> None:
    threads.clear()
    made = reporters(monkeypatch, blocks=Blocks)

    async def scenario() -> None:
        payload = ClientTelemetryPayload(client_instance_id=uuid.uuid4(), is_terminating=False, data=b"")
        for awaitable in made.plugin.export_metrics(cast(RequestContext, None), payload, 1_000):
            await awaitable

    asyncio.run(scenario())
    made.close()
    assert threads == ["reporter-Blocks"]


def test_a_reporter_without_a_receiver_is_said_to_take_no_pushes(monkeypatch: pytest.MonkeyPatch) -> None:
    with capture_logs() as logged:
        reporters(monkeypatch, good=Good, blocks=Blocks).close()
    assert [(each["event"], each["reporter"]) for each in logged] == [("listener.reporter_takes_no_pushes", "good")]

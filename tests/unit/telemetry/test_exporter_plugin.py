"""Receivers of one's own: both of Kafka's interfaces, and what a bad one may not do."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.payloads.payloads import metrics_data
from unit.telemetry.node import Client, Node

from fleetgauge.base.errors import ErrorCode, InvalidConfigError
from fleetgauge.quotas.metrics.kafka_metric import KafkaMetric
from fleetgauge.telemetry.plugin import (
    ClientTelemetryContext,
    ClientTelemetryExporterPlugin,
    ClientTelemetryPayload,
    MetricsContext,
    MetricsReporter,
    RequestContext,
    exporter_plugin,
    load_reporter,
)
from fleetgauge.telemetry.plugin.exporter_plugin import Export


class Reporter(MetricsReporter):
    """A reporter that does nothing about the node's own metrics."""

    def configure(self, configs: Mapping[str, object]) -> None: ...

    def init(self, metrics: Sequence[KafkaMetric]) -> None: ...

    def metric_change(self, metric: KafkaMetric) -> None: ...

    def metric_removal(self, metric: KafkaMetric) -> None: ...

    def context_change(self, context: MetricsContext) -> None: ...

    def close(self) -> None: ...


class Receiving(Reporter):
    """A reporter and its receiver in one (KIP-714)."""

    def __init__(self, outcome: Exception | Callable[[], Awaitable[Any]] | None = None) -> None:
        self.calls: list[tuple[Any, ClientTelemetryPayload]] = []
        self.outcome = outcome

    def client_receiver(self) -> "Receiving":
        return self

    def export_metrics(self, context: Any, payload: ClientTelemetryPayload) -> Awaitable[Any] | None:
        self.calls.append((context, payload))
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome() if callable(self.outcome) else None


class Exporting(Receiving):
    """The same in both forms; Kafka asks it for the exporter alone (KIP-1217)."""

    def client_telemetry_exporter(self) -> "Exporting":
        return self


class Silent(Reporter):
    """A reporter that receives no telemetry."""


class Declining(Reporter):
    """A reporter that could receive telemetry, and does not want to."""

    def client_receiver(self) -> None:
        return None


class Incomplete:
    """No reporter at all."""

    def configure(self, configs: Mapping[str, object]) -> None:
        pass


class Failing(Reporter):
    def __init__(self) -> None:
        raise RuntimeError("no luck")


def test_a_receiver_gets_the_decompressed_payload_and_who_sent_it(node: Node, client: Client) -> None:
    receiver = Receiving()
    assert node.plugin.add(receiver)
    client.get()
    push = client.accepted(terminating=True)
    [(context, payload)] = receiver.calls
    assert isinstance(context, RequestContext)
    assert (context.client_id, context.client_address) == ("app", "10.0.0.9")
    assert payload == ClientTelemetryPayload(
        client_instance_id=client.given_id,
        is_terminating=True,
        data=push.record.metrics,
        content_type="application/x-protobuf;type=otlp+metrics0.19",
    )


def test_an_exporter_is_told_the_push_interval_and_asked_once_for_both_interfaces(node: Node, client: Client) -> None:
    exporter = Exporting()
    node.plugin.add(exporter)
    client.get()
    client.answer()
    [(context, _)] = exporter.calls
    assert isinstance(context, ClientTelemetryContext)
    assert context.push_interval_ms == 60_000
    assert context.authorizable_request_context.client_id == "app"


def test_a_heartbeat_reaches_receivers_and_a_refused_push_does_not(node: Node, client: Client) -> None:
    receiver = Receiving()
    node.plugin.add(receiver)
    client.get()
    client.answer(subscription_id=1)
    client.answer(metrics=b"no zstd", compression_type=4)
    assert receiver.calls == []
    node.time.sleep(60_000)
    client.answer(metrics=None)
    assert [payload.data for _, payload in receiver.calls] == [b""]


@pytest.mark.parametrize("reporter", [Silent(), Declining()])
def test_a_reporter_without_a_receiver_is_not_called(node: Node, client: Client, reporter: MetricsReporter) -> None:
    assert not node.plugin.add(reporter)
    assert node.plugin.is_empty
    client.get()
    assert client.answer() is ErrorCode.NONE


def test_a_throwing_receiver_reaches_neither_the_client_nor_the_next_receiver(node: Node, client: Client) -> None:
    bad, good = Receiving(ValueError("boom")), Receiving()
    node.plugin.add(bad)
    node.plugin.add(good)
    client.get()
    with capture_logs() as said:
        assert client.answer() is ErrorCode.NONE
    assert len(good.calls) == 1
    assert node.manager.plugin.errors() == {"Receiving": 1}
    assert node.sensor("plugin-error-count") == 1
    assert node.sensor("plugin-export-count") == 2  # the good one and the push log
    assert [(line["event"], line["reason"]) for line in said] == [("telemetry.reporter_failed", "ValueError('boom')")]


class Awaiting(Receiving):
    """A receiver that is a coroutine function: calling it runs nothing yet."""

    async def export_metrics(self, context: Any, payload: ClientTelemetryPayload) -> None:
        self.calls.append((context, payload))


def test_a_receiver_that_could_block_is_isolated_and_a_coroutine_function_is_called_as_it_is() -> None:
    isolated: list[str] = []

    def isolate(name: str, export: Export) -> Export:
        isolated.append(name)
        return export

    plugin = ClientTelemetryExporterPlugin(isolate=isolate)
    for reporter in (Receiving(), Exporting(), Awaiting(), Silent(), Declining()):
        plugin.add(reporter)
    assert isolated == ["Receiving", "Exporting"]


def test_a_failing_receiver_is_logged_once_a_minute_each(node: Node, client: Client) -> None:
    node.plugin.add(Receiving(ValueError("first")))
    node.plugin.add(Exporting(ValueError("second")))
    node.manager.subscriptions.update("all", {"metrics": "*", "interval.ms": "1000"})
    client.get()
    with capture_logs() as said:
        for _ in range(61):
            assert client.answer() is ErrorCode.NONE
            node.time.sleep(1_000)
    assert [line["errors"] for line in said] == [1, 1, 61, 61]
    assert node.manager.plugin.errors() == {"Receiving": 61, "Exporting": 61}


def test_a_removed_reporter_is_called_no_more(node: Node, client: Client) -> None:
    gone, stays = Receiving(), Receiving()
    node.plugin.add(gone)
    node.plugin.add(stays)
    node.plugin.remove(gone)
    node.plugin.remove(gone)
    client.get()
    client.answer()
    assert (len(gone.calls), len(stays.calls)) == (0, 1)


def test_an_awaitable_is_handed_on_and_its_failure_counted_not_raised(node: Node, client: Client) -> None:
    finished = []

    async def well() -> None:
        finished.append(True)

    async def badly() -> None:
        raise ValueError("late boom")

    node.plugin.add(Receiving(well))
    node.plugin.add(Receiving(badly))
    client.get()
    push = client.accepted()

    async def finish() -> None:
        await asyncio.gather(*push.awaitables)

    with capture_logs() as said:
        asyncio.run(finish())
    assert finished == [True]
    assert [line["reason"] for line in said] == ["ValueError('late boom')"]
    assert node.sensor("plugin-error-count") == 1
    assert node.sensor("plugin-export-count") == 1


def test_a_cancelled_awaitable_counts_as_failed_and_stays_cancelled(node: Node, client: Client) -> None:
    node.plugin.add(Receiving(lambda: asyncio.Event().wait()))
    client.get()
    [awaitable] = client.accepted().awaitables

    async def cut_off() -> None:
        await asyncio.wait_for(awaitable, 0.001)

    with capture_logs(), pytest.raises(TimeoutError):
        asyncio.run(cut_off())
    assert node.sensor("plugin-error-count") == 1


@pytest.mark.parametrize("bound", ["MAX_PENDING_EXPORTS", "MAX_PENDING_BYTES"])
def test_a_reporter_that_hangs_is_passed_over_until_it_finishes_something(
    node: Node, make_client: type[Client], monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    payload = metrics_data()
    monkeypatch.setattr(exporter_plugin, bound, 2 if bound == "MAX_PENDING_EXPORTS" else len(payload) + 1)
    released = asyncio.Event()
    hanging, well = Receiving(released.wait), Receiving()
    node.plugin.add(hanging)
    node.plugin.add(well)

    def push() -> tuple[Awaitable[None], ...]:
        client = make_client(node, connection=str(uuid.uuid4()))
        client.get()
        return client.accepted(metrics=payload).awaitables

    async def rounds() -> None:
        waiting = [task for _ in range(5) for task in push()]
        assert (len(waiting), len(hanging.calls), len(well.calls)) == (2, 2, 5)
        assert node.plugin.errors() == {"Receiving": 3}
        released.set()
        await asyncio.gather(*waiting)
        await asyncio.gather(*push())
        assert len(hanging.calls) == 3

    asyncio.run(rounds())


@pytest.mark.parametrize("separator", [".", ":"])
def test_a_reporter_is_loaded_by_its_dotted_path(
    separator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"reporter_{uuid.uuid4().hex}"
    source = "from fleetgauge.telemetry.plugin import MetricsReporter\nclass Mine(MetricsReporter):\n    pass\n"
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    reporter = load_reporter(f"{module}{separator}Mine")
    assert type(reporter).__name__ == "Mine"
    assert isinstance(reporter, MetricsReporter)


def test_a_reporter_is_loaded_by_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dist = tmp_path / "house_reporters-1.0.dist-info"
    dist.mkdir()
    (dist / "METADATA").write_text("Metadata-Version: 2.1\nName: house-reporters\nVersion: 1.0\n")
    (dist / "entry_points.txt").write_text(
        "[fleetgauge.metric_reporters]\nhouse = house_module:House\nbroken = no_such_module:House\n"
    )
    source = "from fleetgauge.telemetry.plugin import MetricsReporter\nclass House(MetricsReporter):\n    pass\n"
    (tmp_path / "house_module.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    assert type(load_reporter("house")).__name__ == "House"
    with pytest.raises(InvalidConfigError, match="entry point no_such_module:House does not load"):
        load_reporter("broken")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nonsense", "it is neither a dotted path nor an entry point"),
        ("", "it is neither a dotted path nor an entry point"),
        ("no.such.module.Class", "there is no module no; install it, or set PYTHONPATH to its directory"),
        ("fleetgauge.telemetry.plugin.NoSuchClass", "the module fleetgauge.telemetry.plugin has no NoSuchClass"),
        ("fleetgauge.telemetry.plugin:CONTENT_TYPE", "is not a class"),
        ("fleetgauge.telemetry.plugin:RequestContext", "it cannot be instantiated without arguments: TypeError"),
        (
            "collections:OrderedDict",
            "it is not a MetricsReporter: it lacks configure, init, metric_change, metric_removal, ",
        ),
    ],
)
def test_a_reporter_that_does_not_load_is_one_clear_sentence(name: str, reason: str) -> None:
    with pytest.raises(InvalidConfigError) as raised:
        load_reporter(name)
    assert str(raised.value).startswith(f"Invalid value {name} for metric.reporters: ")
    assert reason in str(raised.value)


@pytest.mark.parametrize(("cls", "reason"), [("Failing", "RuntimeError: no luck"), ("Incomplete", "init, ")])
def test_a_reporter_that_cannot_be_made_is_one_clear_sentence(
    cls: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys
    import types

    module = types.ModuleType("some_reporters")
    vars(module).update(Failing=Failing, Incomplete=Incomplete)
    monkeypatch.setitem(sys.modules, "some_reporters", module)
    with pytest.raises(InvalidConfigError, match=reason):
        load_reporter(f"some_reporters.{cls}")

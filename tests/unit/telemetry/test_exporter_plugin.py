"""Receivers of one's own: both of Kafka's interfaces, and what a bad one may not do."""

import asyncio
import uuid

import pytest
from structlog.testing import capture_logs
from support.payloads import metrics_data

from base.errors import ErrorCode, InvalidConfigError
from telemetry.plugin import (
    ClientTelemetryContext,
    ClientTelemetryExporterPlugin,
    ClientTelemetryPayload,
    MetricsReporter,
    RequestContext,
    exporter_plugin,
    load_reporter,
)
from telemetry.push import Push


class Receiving(MetricsReporter):
    """A reporter and its receiver in one (KIP-714)."""

    def __init__(self, outcome=None):
        self.calls = []
        self.outcome = outcome

    def client_receiver(self):
        return self

    def export_metrics(self, context, payload):
        self.calls.append((context, payload))
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome() if callable(self.outcome) else None


class Exporting(Receiving):
    """The same in both forms; Kafka asks it for the exporter alone (KIP-1217)."""

    def client_telemetry_exporter(self):
        return self


class Silent(MetricsReporter):
    """A reporter that receives no telemetry."""


class Declining(MetricsReporter):
    """A reporter that could receive telemetry, and does not want to."""

    def client_receiver(self):
        return None


class Incomplete:
    """No reporter at all."""

    def configure(self, configs):
        pass


class Failing(MetricsReporter):
    def __init__(self):
        raise RuntimeError("no luck")


def test_a_receiver_gets_the_decompressed_payload_and_who_sent_it(node, client):
    receiver = Receiving()
    assert node.plugin.add(receiver)
    client.get()
    push = client.push(terminating=True)
    [(context, payload)] = receiver.calls
    assert isinstance(context, RequestContext)
    assert (context.client_id, context.client_address) == ("app", "10.0.0.9")
    assert payload == ClientTelemetryPayload(
        client_instance_id=client.id,
        is_terminating=True,
        data=push.record.metrics,
        content_type="application/x-protobuf;type=otlp+metrics0.19",
    )


def test_an_exporter_is_told_the_push_interval_and_asked_once_for_both_interfaces(node, client):
    exporter = Exporting()
    node.plugin.add(exporter)
    client.get()
    client.answer()
    [(context, _)] = exporter.calls
    assert isinstance(context, ClientTelemetryContext)
    assert context.push_interval_ms == 60_000
    assert context.authorizable_request_context.client_id == "app"


def test_a_heartbeat_reaches_receivers_and_a_refused_push_does_not(node, client):
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
def test_a_reporter_without_a_receiver_is_not_called(node, client, reporter):
    assert not node.plugin.add(reporter)
    assert node.plugin.is_empty
    client.get()
    assert client.answer() is ErrorCode.NONE


def test_a_throwing_receiver_reaches_neither_the_client_nor_the_next_receiver(node, client):
    bad, good = Receiving(ValueError("boom")), Receiving()
    node.plugin.add(bad)
    node.plugin.add(good)
    client.get()
    with capture_logs() as said:
        assert client.answer() is ErrorCode.NONE
    assert len(good.calls) == 1
    assert node.manager.plugin_errors() == {"Receiving": 1}
    assert node.sensor("plugin-error-count") == 1
    assert node.sensor("plugin-export-count") == 2  # the good one and the push log
    assert [(line["event"], line["reason"]) for line in said] == [("telemetry.reporter_failed", "ValueError('boom')")]


class Awaiting(Receiving):
    """A receiver that is a coroutine function: calling it runs nothing yet."""

    async def export_metrics(self, context, payload):
        self.calls.append((context, payload))


def test_a_receiver_that_could_block_is_isolated_and_a_coroutine_function_is_called_as_it_is():
    isolated = []

    def isolate(name, export):
        isolated.append(name)
        return export

    plugin = ClientTelemetryExporterPlugin(isolate=isolate)
    for reporter in (Receiving(), Exporting(), Awaiting(), Silent(), Declining()):
        plugin.add(reporter)
    assert isolated == ["Receiving", "Exporting"]


def test_a_failing_receiver_is_logged_once_a_minute_each(node, client):
    node.plugin.add(Receiving(ValueError("first")))
    node.plugin.add(Exporting(ValueError("second")))
    node.manager.update_subscription("all", {"metrics": "*", "interval.ms": "1000"})
    client.get()
    with capture_logs() as said:
        for _ in range(61):
            assert client.answer() is ErrorCode.NONE
            node.time.sleep(1_000)
    assert [line["errors"] for line in said] == [1, 1, 61, 61]
    assert node.manager.plugin_errors() == {"Receiving": 61, "Exporting": 61}


def test_a_removed_reporter_is_called_no_more(node, client):
    gone, stays = Receiving(), Receiving()
    node.plugin.add(gone)
    node.plugin.add(stays)
    node.plugin.remove(gone)
    node.plugin.remove(gone)
    client.get()
    client.answer()
    assert (len(gone.calls), len(stays.calls)) == (0, 1)


def test_an_awaitable_is_handed_on_and_its_failure_counted_not_raised(node, client):
    finished = []

    async def well():
        finished.append(True)

    async def badly():
        raise ValueError("late boom")

    node.plugin.add(Receiving(well))
    node.plugin.add(Receiving(badly))
    client.get()
    push = client.push()
    assert isinstance(push, Push)

    async def finish():
        await asyncio.gather(*push.awaitables)

    with capture_logs() as said:
        asyncio.run(finish())
    assert finished == [True]
    assert [line["reason"] for line in said] == ["ValueError('late boom')"]
    assert node.sensor("plugin-error-count") == 1
    assert node.sensor("plugin-export-count") == 1


def test_a_cancelled_awaitable_counts_as_failed_and_stays_cancelled(node, client):
    node.plugin.add(Receiving(lambda: asyncio.sleep(60)))
    client.get()
    [awaitable] = client.push().awaitables

    async def cut_off():
        await asyncio.wait_for(awaitable, 0.001)

    with capture_logs(), pytest.raises(TimeoutError):
        asyncio.run(cut_off())
    assert node.sensor("plugin-error-count") == 1


@pytest.mark.parametrize("bound", ["MAX_PENDING_EXPORTS", "MAX_PENDING_BYTES"])
def test_a_reporter_that_hangs_is_passed_over_until_it_finishes_something(node, make_client, monkeypatch, bound):
    payload = metrics_data()
    monkeypatch.setattr(exporter_plugin, bound, 2 if bound == "MAX_PENDING_EXPORTS" else len(payload) + 1)
    released = asyncio.Event()
    hanging, well = Receiving(released.wait), Receiving()
    node.plugin.add(hanging)
    node.plugin.add(well)

    def push():
        client = make_client(node, connection=str(uuid.uuid4()))
        client.get()
        return client.push(metrics=payload).awaitables

    async def rounds():
        waiting = [task for _ in range(5) for task in push()]
        assert (len(waiting), len(hanging.calls), len(well.calls)) == (2, 2, 5)
        assert node.plugin.errors() == {"Receiving": 3}
        released.set()
        await asyncio.gather(*waiting)
        await asyncio.gather(*push())
        assert len(hanging.calls) == 3

    asyncio.run(rounds())


@pytest.mark.parametrize("separator", [".", ":"])
def test_a_reporter_is_loaded_by_its_dotted_path(separator, tmp_path, monkeypatch):
    module = f"reporter_{uuid.uuid4().hex}"
    source = "from telemetry.plugin import MetricsReporter\nclass Mine(MetricsReporter):\n    pass\n"
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    reporter = load_reporter(f"{module}{separator}Mine")
    assert type(reporter).__name__ == "Mine"
    assert isinstance(reporter, MetricsReporter)


def test_a_reporter_is_loaded_by_its_entry_point(tmp_path, monkeypatch):
    dist = tmp_path / "house_reporters-1.0.dist-info"
    dist.mkdir()
    (dist / "METADATA").write_text("Metadata-Version: 2.1\nName: house-reporters\nVersion: 1.0\n")
    (dist / "entry_points.txt").write_text(
        "[fleetgauge.metric_reporters]\nhouse = house_module:House\nbroken = no_such_module:House\n"
    )
    source = "from telemetry.plugin import MetricsReporter\nclass House(MetricsReporter):\n    pass\n"
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
        ("no.such.module.Class", "the module no.such.module does not import: ModuleNotFoundError"),
        ("telemetry.plugin.NoSuchClass", "the module telemetry.plugin has no NoSuchClass"),
        ("telemetry.plugin:CONTENT_TYPE", "is not a class"),
        ("telemetry.plugin:RequestContext", "it cannot be made without arguments: TypeError"),
        ("collections:OrderedDict", "it is no MetricsReporter, configure, init, metric_change, metric_removal, "),
    ],
)
def test_a_reporter_that_does_not_load_is_one_clear_sentence(name, reason):
    with pytest.raises(InvalidConfigError) as raised:
        load_reporter(name)
    assert str(raised.value).startswith(f"Invalid value {name} for metric.reporters: ")
    assert reason in str(raised.value)


@pytest.mark.parametrize(("cls", "reason"), [("Failing", "RuntimeError: no luck"), ("Incomplete", "init, ")])
def test_a_reporter_that_cannot_be_made_is_one_clear_sentence(cls, reason, monkeypatch):
    import sys
    import types

    module = types.ModuleType("some_reporters")
    module.Failing, module.Incomplete = Failing, Incomplete
    monkeypatch.setitem(sys.modules, "some_reporters", module)
    with pytest.raises(InvalidConfigError, match=reason):
        load_reporter(f"some_reporters.{cls}")

"""Our own destinations, and the example of somebody else's, do what every exporter has to do."""

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from concurrent import futures
from pathlib import Path
from types import ModuleType

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc
from support.fleet.landing import landed
from support.proxies.trickling import BODY, HEAD, TLS, trickling
from support.receivers.webhook import Webhook
from support.waiting import wait_for

from fleetgauge.exporters.exporter import Delivered, Exporter, Refused, RefusedRecord, Retry, TooLarge
from fleetgauge.exporters.options import ExporterConfigError
from fleetgauge.exporters.registry import build_exporter
from fleetgauge.testkit.conformance import ExporterConformance, a_push, batch_of, started
from fleetgauge.testkit.otlp_receiver import Receiver

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def webhook_module() -> Iterator[ModuleType]:
    """The example, importable by its name as on an operator's PYTHONPATH."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        assert importlib.util.find_spec("webhook_exporter") is not None
        yield importlib.import_module("webhook_exporter")
    finally:
        sys.path.remove(str(EXAMPLES))


class TestLanding(ExporterConformance):
    """The landing zone: a folder that may be away."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.root = tmp_path / "landing"
        self.aside = tmp_path / "aside"

    def make(self) -> Exporter:
        return build_exporter("landing", {"type": "landing", "path": str(self.root)})

    def received(self) -> Sequence[str]:
        return [str(row["client_instance_id"]) for row in landed(self.root) if row["metrics"]]

    def take_away(self) -> None:
        if self.root.exists():
            self.root.rename(self.aside)
        self.root.write_text("no folder")

    def bring_back(self) -> None:
        self.root.unlink()
        if self.aside.exists():
            self.aside.rename(self.root)


class TestOtlpGrpc(ExporterConformance):
    """OTLP over gRPC, to a real server."""

    @pytest.fixture(autouse=True)
    def _receiver(self) -> Iterator[None]:
        self.receiver, self.port = Receiver(), 0
        self.bring_back()
        yield
        self.server.stop(0).wait()

    def make(self) -> Exporter:
        keys = {"type": "otlp", "endpoint": f"http://127.0.0.1:{self.port}", "timeout.ms": 5_000}
        return build_exporter("collector", keys)

    def received(self) -> Sequence[str]:
        clients = self.receiver.summary()["clients"]
        assert isinstance(clients, dict)
        return list(clients)

    def take_away(self) -> None:
        self.server.stop(0).wait()

    def bring_back(self) -> None:
        self.server = grpc.server(futures.ThreadPoolExecutor(2))
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(  # type: ignore[no-untyped-call]  # generated code
            self.receiver, self.server
        )
        self.port = self.server.add_insecure_port(f"127.0.0.1:{self.port}")
        self.server.start()


class TestWebhook(ExporterConformance):
    """The example, made by its dotted path."""

    @pytest.fixture(autouse=True)
    def _hook(self, webhook_module: ModuleType) -> Iterator[None]:
        with Webhook() as self.hook:
            yield

    def make(self) -> Exporter:
        return build_exporter("hook", {"type": "webhook_exporter:webhook_exporter", "url": self.hook.url})

    def received(self) -> Sequence[str]:
        return self.hook.received

    def take_away(self) -> None:
        self.hook.stop()

    def bring_back(self) -> None:
        self.hook.start()

    def hang(self) -> None:
        self.hook.hangs = True

    def test_pushes_that_the_server_names_are_refused_and_no_others(self) -> None:
        batch = batch_of([a_push(1), a_push(2), a_push(3)])
        self.hook.refuses = lambda push: push["client_id"] == "client-2"
        with started(self.make()) as exporter:
            outcome = exporter.export(batch)
        named = RefusedRecord(push_id=batch.records[1].push_id, reason="unwanted", detail="not here")
        assert outcome == Delivered(refused=(named,))

    @pytest.mark.parametrize(
        ("status", "kind"),
        [(400, Refused), (422, Refused), (413, TooLarge), (401, Retry), (404, Retry), (429, Retry), (503, Retry)],
    )
    def test_what_tells_of_us_waits_and_what_tells_of_the_pushes_is_refused(self, status: int, kind: type) -> None:
        self.hook.status = status
        with started(self.make()) as exporter:
            outcome = exporter.export(batch_of([a_push(1)]))
        assert isinstance(outcome, kind)

    @pytest.mark.parametrize(
        ("keys", "said"),
        [
            ({}, r"exporters\.hook\.url is '': expected"),
            ({"url": "ftp://x"}, "expected http://host/path"),
            ({"url": "http://x/", "uri": "x"}, r"exporters\.hook\.uri: there is no such key"),
            ({"url": "http://x/", "drain.rate.bytes": 0}, r"drain\.rate\.bytes is 0: expected a whole number from 1"),
        ],
    )
    def test_a_wrong_key_is_named(self, keys: dict[str, object], said: str) -> None:
        with pytest.raises(ExporterConfigError, match=said):
            build_exporter("hook", {"type": "webhook_exporter:webhook_exporter", **keys})


@pytest.mark.parametrize(("scheme", "opening"), [("http", HEAD), ("http", BODY), ("https", TLS)], ids=str)
@pytest.mark.usefixtures("webhook_module")
def test_an_answer_to_the_example_that_has_no_end_costs_one_timeout_and_delivers_nothing(
    scheme: str, opening: bytes
) -> None:
    with trickling(opening) as server:
        keys = {"type": "webhook_exporter:webhook_exporter", "url": f"{scheme}://{server.address}/"}
        with started(build_exporter("hook", {**keys, "timeout.ms": 500})) as exporter:
            outcome = exporter.export(batch_of([a_push(1)]))
            assert isinstance(outcome, Retry), outcome
            assert outcome.reason == "unreachable"
            wait_for(lambda: server.ended, "the end of the connection")

"""Real payloads changed at random: what is repaired parses, and says what protobuf would have read of it."""

import os

from fuzz.corpus import read_corpus
from fuzz.payloads import payloads
from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from support.payloads.damaged_payloads import READABLE
from support.payloads.mutations import mutated

from fleetgauge.base.errors import InvalidRecordError
from fleetgauge.telemetry.otlp.repair import TextRepair
from fleetgauge.telemetry.otlp.schema import METRICS_DATA
from fleetgauge.telemetry.validate import read_metrics

INPUTS = int(os.environ.get("FLEETGAUGE_MUTATED_INPUTS", "10000"))
"""`make soak` takes more of them, with compiled modules."""
SEED = int(os.environ.get("FLEETGAUGE_MUTATED_SEED", "1"))


def parses(metrics: bytes) -> bool:
    try:
        MetricsData.FromString(metrics)
    except DecodeError:
        return False
    return True


def test_what_protobuf_takes_is_left_alone_and_what_is_repaired_protobuf_takes() -> None:
    seeds = [
        data for data in (*payloads(), *READABLE.values(), *(each[1:] for each in read_corpus("validate"))) if data
    ]
    repaired = 0
    for metrics in mutated(seeds, INPUTS, SEED):
        if parses(metrics):
            repair = TextRepair(metrics, METRICS_DATA)
            assert repair.metrics is metrics, metrics.hex()
            assert repair.replaced == 0
            continue
        try:
            found = read_metrics(metrics)
        except InvalidRecordError:
            continue
        repaired += 1
        assert found.replaced > 0
        assert "\ufffd" in found.example or len(found.example) == 48
        assert parses(found.metrics), metrics.hex()
        assert "\ufffd".encode() in found.metrics
        assert read_metrics(found.metrics).metrics is found.metrics
    assert repaired > INPUTS // 100, "hardly anything was repaired"


def test_invalid_text_of_a_real_payload_is_replaced_and_everything_else_stays() -> None:
    tried = 0
    for payload in payloads():
        data = MetricsData.FromString(payload)
        for resource_metrics in data.resource_metrics:
            for attribute in resource_metrics.resource.attributes:
                attribute.value.string_value = "placeholder"
        damaged = data.SerializeToString().replace(b"placeholder", b"pl\xe4ceholder")
        for resource_metrics in data.resource_metrics:
            for attribute in resource_metrics.resource.attributes:
                attribute.value.string_value = "pl\ufffdceholder"
                tried += 1
        assert MetricsData.FromString(read_metrics(damaged).metrics) == data
    assert tried

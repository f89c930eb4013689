"""Real payloads changed at random are judged as protobuf's parser judges them."""

import os

from fuzz.corpus import read_corpus
from fuzz.payloads import payloads
from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from support.payloads.mutations import mutated

from fleetgauge.base.errors import InvalidRecordError
from fleetgauge.telemetry.otlp.check import is_well_formed
from fleetgauge.telemetry.otlp.schema import METRICS_DATA
from fleetgauge.telemetry.validate import validate_metrics

INPUTS = int(os.environ.get("FLEETGAUGE_MUTATED_INPUTS", "10000"))
"""`make soak` takes more of them, with compiled modules."""
SEED = int(os.environ.get("FLEETGAUGE_MUTATED_SEED", "1"))


def parsed(metrics: bytes) -> MetricsData | None:
    try:
        return MetricsData.FromString(metrics)
    except DecodeError:
        return None


def is_taken(metrics: bytes) -> bool:
    try:
        validate_metrics(metrics)
    except InvalidRecordError:
        return False
    return True


def test_protobuf_and_the_check_agree_on_real_payloads_changed_at_random() -> None:
    seeds = [data for data in (*payloads(), *(each[1:] for each in read_corpus("validate"))) if data]
    taken = unchecked = 0
    for metrics in mutated(seeds, INPUTS, SEED):
        data = parsed(metrics)
        assert is_taken(metrics) is (data is not None), metrics.hex()
        decided = is_well_formed(metrics, METRICS_DATA)
        assert data is not None or not decided, metrics.hex()
        if data is None:
            continue
        taken += 1
        if not decided:
            # Groups and large field numbers: without what OTLP does not know, there are none.
            unchecked += 1
            data.DiscardUnknownFields()
            assert is_well_formed(data.SerializeToString(), METRICS_DATA), metrics.hex()
    assert INPUTS // 20 < taken < INPUTS * 9 // 10, "one of the verdicts was hardly tried"
    assert unchecked < taken // 2, "hardly anything was left to the check"

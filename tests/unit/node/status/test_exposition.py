"""What /metrics makes of a status: names, types, labels, and that nothing of the status is left out."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from fleetgauge.exporters.delivery.stats import DeliveryStats, PipelineState
from fleetgauge.node.status.exposition import (
    AUDIT_LOG,
    BY_REASON,
    CONNECTIONS,
    EXPORTERS,
    GATEWAY,
    HISTOGRAMS,
    PUSH_LOG,
    QUOTAS,
    STATE,
    STATES,
    TELEMETRY,
    TRAFFIC,
    WORKERS,
    HttpStatus,
    exposition,
    families,
)
from fleetgauge.node.status.routes import ENDPOINTS, PARAMETERS
from fleetgauge.telemetry.instances.client_metrics import INSTANCE_METRICS, TOTAL_METRICS
from fleetgauge.telemetry.instances.client_state import ClientState
from fleetgauge.telemetry.instances.inventory import ClientRow

DOCS = Path(__file__).parents[4] / "docs" / "operate" / "http.md"


def status(**changes: Any) -> dict[str, Any]:
    """A status in which everything is there that can be."""
    exporter = {
        **dict.fromkeys(EXPORTERS, 7),
        "type": "otlp",
        "state": "running",
        "retried": {"unavailable": 3},
        "refused": {"invalid_argument": 1},
        "bad_records": {"no_push_id": 2},
        "lost": {"retention": 5, "damage": 0},
        "letters_lost": {"retention_bytes": 4},
        **{key: {"bounds": [0.5, 1.0], "counts": [3, 2, 1], "sum": 12.5} for key in HISTOGRAMS},
    }
    found: dict[str, Any] = {
        "node": {"node_id": 1, "cluster_id": 'c"\\\n1', "started_at_ms": 1_750_000_000_500, "not_ready": []},
        "workers": [{"worker": 2, **dict.fromkeys(WORKERS, 6), "serves": True}],
        "connections": [
            {
                "listener": "PLAINTEXT",
                **dict.fromkeys(CONNECTIONS, 5),
                "closed": {"idle": 2},
                "requests": {"PUSH_TELEMETRY": 9},
            }
        ],
        "quotas": {
            **dict.fromkeys(QUOTAS, 4),
            "usage": {
                "Request": {"user=alice": {"tags": {"user": "alice", "client-id": ""}, "used": 3.0, "limit": 2.0}},
                "TelemetryPush": {"team=a": {"tags": {"team": "a"}, "used": 0.0, "limit": 1.0}},
            },
        },
        "authorization": {"denials": {"CREATE_ACLS: ALTER": 3, "PUSH_TELEMETRY: client_id": 2}},
        "state": dict.fromkeys(STATE, 1),
        "audit_log": dict.fromkeys(AUDIT_LOG, 8),
        "gateway": {
            **dict.fromkeys(GATEWAY, 7),
            "traffic": {
                "by_client": {
                    "key": {
                        "principal": "alice",
                        "client_id": "app",
                        "api": "Produce",
                        **dict.fromkeys(TRAFFIC, 2_000),
                        "errors": {"NOT_LEADER_OR_FOLLOWER": 3},
                    }
                },
                "throttled": {"Produce": 4},
                "left_out": 1,
                "requests_of_others": 2,
            },
        },
        "telemetry": {
            "subscriptions": ["a", "b"],
            "get_answers": {"NONE": 4},
            "push_answers": {"NONE": 8, "THROTTLING_QUOTA_EXCEEDED: PushLogFullError": 1},
            "refusals": {"INVALID_RECORD": {"broken_compression": 2}},
            "malformed": {"invalid_utf8": 3},
            "counters": dict.fromkeys(TELEMETRY, 3),
            "plugin_timeouts": 1,
            "plugin_errors": {"SlowBrokerReporter": 2},
            "client_metrics": {metric.name: 1.5 for metric in TOTAL_METRICS} | {"plugin-export-time-max": None},
        },
        "push_log": dict.fromkeys(PUSH_LOG, 2_000_000),
        "exporter_process": {
            "wanted": True,
            "pid": 5,
            "restarts": 2,
            "hangs": 1,
            "status_age_ms": 1_500,
            "exporters": {"collector": exporter},
        },
    }
    return {**found, **changes}


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (each.name, tuple(sorted(each.labels.items()))): each.value for family in parse(text) for each in family.samples
    }


def text_of(found: dict[str, Any], own: Any = (), accept: str = "") -> str:
    return exposition(found, own, accept, HttpStatus({"wrong_password": 1}, 1_800_000_000))[0].decode()


def test_numbers_are_told_in_base_units_with_their_labels() -> None:
    found = samples(text_of(status()))
    assert found["fleetgauge_start_time_seconds", ()] == 1_750_000_000.5
    assert found["fleetgauge_connections_closed_total", (("listener", "PLAINTEXT"), ("reason", "idle"))] == 2
    assert found["fleetgauge_requests_total", (("api", "push_telemetry"), ("listener", "PLAINTEXT"))] == 9
    full = (("cause", "PushLogFullError"), ("error_code", "THROTTLING_QUOTA_EXCEEDED"))
    assert found["fleetgauge_push_answers_total", full] == 1
    assert found["fleetgauge_refusals_total", (("error_code", "INVALID_RECORD"), ("reason", "broken_compression"))] == 2
    assert found["fleetgauge_push_log_oldest_timestamp_seconds", ()] == 2
    assert found["fleetgauge_exporter_last_export_seconds", (("exporter", "collector"),)] == 0.007
    assert found["fleetgauge_exporter_retries_total", (("exporter", "collector"), ("reason", "unavailable"))] == 3
    assert found["fleetgauge_exporter_status_age_seconds", ()] == 1.5
    lost = (("exporter", "collector"), ("reason", "retention"))
    assert found["fleetgauge_exporter_lost_pushes_total", lost] == 5
    states = {labels: value for (name, labels), value in found.items() if name == "fleetgauge_exporter_state"}
    assert sum(states.values()) == 1
    assert states[("exporter", "collector"), ("state", "running"), ("type", "otlp")] == 1
    assert found["kafka_server_client_metrics_throttle_count", ()] == 1.5
    assert math.isnan(found["kafka_server_client_metrics_plugin_export_time_max", ()]), "nothing was exported of late"


def test_times_are_told_in_buckets_that_include_the_smaller_ones() -> None:
    found = samples(text_of(status()))
    name = "fleetgauge_exporter_freshness_seconds"
    ends = {"0.5": 3, "1.0": 5, "+Inf": 6}
    for end, count in ends.items():
        assert found[f"{name}_bucket", (("exporter", "collector"), ("le", end))] == count
    assert found[f"{name}_count", (("exporter", "collector"),)] == 6
    assert found[f"{name}_sum", (("exporter", "collector"),)] == 12.5


def test_the_usage_of_a_quota_is_told_over_its_limit_with_who_shares_it() -> None:
    found = samples(text_of(status()))
    nobody = {"client_id": "", "ip": "", "listener": "", "tags": "", "user": ""}
    alice = tuple(sorted({**nobody, "quota_type": "Request", "user": "alice"}.items()))
    team = tuple(sorted({**nobody, "quota_type": "TelemetryPush", "tags": "team=a"}.items()))
    assert found["fleetgauge_quota_utilization_ratio", alice] == 1.5
    assert found["fleetgauge_quota_limit", alice] == 2
    assert found["fleetgauge_quota_utilization_ratio", team] == 0
    assert found["fleetgauge_quota_exempt_request_time_ratio", ()] == 0.04
    none = status(quotas={**dict.fromkeys(QUOTAS, 0), "usage": {}})
    assert "fleetgauge_quota_limit" not in text_of(none)


def test_each_worker_has_series_of_its_own_where_there_are_several() -> None:
    found = samples(text_of(status()))
    assert found["fleetgauge_worker_up", (("worker", "2"),)] == 1
    assert found["fleetgauge_worker_connections", (("worker", "2"),)] == 6
    alone = status()
    del alone["workers"]
    assert "fleetgauge_worker" not in text_of(alone)


def test_what_is_not_known_is_left_out() -> None:
    unknown = status()
    exporters = unknown["exporter_process"]["exporters"]
    exporters["collector"]["lag_records"] = None
    del unknown["push_log"]["records"]
    text = text_of(unknown)
    assert "fleetgauge_exporter_lag_pushes" not in text
    assert "fleetgauge_push_log_pushes" not in text


def test_both_forms_can_be_parsed_and_every_metric_is_described() -> None:
    own = [("Tm-1TLjmRReIm-FbmcCcIA", *range(len(INSTANCE_METRICS)))]
    own_http = HttpStatus({"wrong_password": 1}, 1_800_000_000)
    body, content_type = exposition(status(), own, "application/openmetrics-text; version=1.0.0", own_http)
    assert content_type.startswith("application/openmetrics-text")
    open_metrics = list(parse_openmetrics(body.decode()))  # type: ignore[no-untyped-call]  # as its package has it
    for parsed in (open_metrics, list(parse(text_of(status(), own)))):
        assert len(parsed) > 60
        for family in parsed:
            assert family.documentation, family.name
            assert family.samples, family.name


def test_our_own_names_are_as_prometheus_would_have_them() -> None:
    for family in parse(text_of(status())):
        if not family.name.startswith("fleetgauge_"):
            continue
        assert family.type in ("counter", "gauge", "histogram")
        assert re.fullmatch(r"[a-z_]+", family.name)
        assert not re.search(r"_(ms|us|kb|count|sum|bucket|info_total)$", family.name), family.name
        assert {sample.name.endswith("_total") for sample in family.samples} == {family.type == "counter"}


def test_single_instances_come_only_where_they_are_asked_for() -> None:
    assert "client_instance_id=" not in text_of(status())
    own = [("Tm-1TLjmRReIm-FbmcCcIA", *(float(index) for index in range(len(INSTANCE_METRICS))))]
    found = samples(text_of(status(), own))
    labels = (("client_instance_id", "Tm-1TLjmRReIm-FbmcCcIA"),)
    for index, metric in enumerate(INSTANCE_METRICS):
        assert found["kafka_server_client_metrics_" + metric.name.replace("-", "_"), labels] == index
    assert ("kafka_server_client_metrics_instance_count", labels) not in found


def test_every_number_and_reason_of_a_delivery_is_told() -> None:
    texts = {"exporter", "state", "last_error"}
    by_reason = {"letters_without_room"}  # of the letters lost
    told = EXPORTERS.keys() | BY_REASON.keys() | HISTOGRAMS.keys() | by_reason
    assert {name for name in DeliveryStats.__dataclass_fields__ if name not in told} == texts
    assert set(STATES) == {state.value for state in PipelineState}


def test_exporters_alone_tell_of_themselves_and_their_log() -> None:
    whole = status()
    head = {"pid": 1, "started_at_ms": 1_750_000_000_500, "not_ready": ["the exporter process is not running"]}
    clients = {"instances": 5, "instances_vanished": 2, "instances_ended": 1, "instances_evicted": 0}
    alone = {"export": head, "clients": clients, **{key: whole[key] for key in ("push_log", "exporter_process")}}
    found = {family.name for family in families(alone, ())}
    values = samples(text_of(alone))
    assert values["fleetgauge_ready", ()] == 0
    assert values["fleetgauge_client_instances", ()] == 5
    assert values["fleetgauge_client_instances_vanished", ()] == 2
    assert "fleetgauge_exporter_delivered_pushes" in found
    assert "fleetgauge_push_log_segments" in found
    assert found < {family.name for family in families(whole, ())}


def test_every_metric_has_a_help_text() -> None:
    """The documentation has a page of all metrics, which is made from these texts."""
    assert [family.name for family in parse(text_of(status())) if not family.documentation] == []


@pytest.mark.parametrize("accept", ["", "text/plain", "*/*", "application/openmetrics-text;q=0.5", "\x00", "a" * 9_000])
def test_whatever_is_asked_for_is_answered(accept: str) -> None:
    body, _ = exposition(status(), (), accept)
    assert b"fleetgauge_build_info" in body


STATE_MEANINGS = {
    ClientState.ENDED: "closed: its terminating push was accepted; listed for an hour",
    ClientState.VANISHED: "its last connection ended without a terminating push, or it sent nothing for three push "
    "intervals, at least 60 s; listed for a day",
    ClientState.REFUSED: "its latest request was answered with an error other than THROTTLING_QUOTA_EXCEEDED",
    ClientState.THROTTLED: "its latest request was answered THROTTLING_QUOTA_EXCEEDED",
    ClientState.UNSUBSCRIBED: "no subscription requests metrics from it",
    ClientState.LATE: "it sent nothing for 1.5 push intervals and a second",
    ClientState.NEW: "no push yet, and none is due",
    ClientState.LIVE: "its pushes arrive in time",
}


def test_the_documentation_has_every_state_field_and_parameter() -> None:
    documented = DOCS.read_text(encoding="utf-8")
    for state, meaning in STATE_MEANINGS.items():
        assert f"| `{state}` | {meaning} |" in documented
    assert set(STATE_MEANINGS) == set(ClientState)
    for name in (*ClientRow._fields, *PARAMETERS, *ENDPOINTS, "telemetry.client.instance.metrics.max"):
        assert f"`{name}" in documented, name

"""Several workers as one node: limits are divided, counters add up and never fall, each client stands there once."""

import asyncio
import json
import math
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.programs.push_log import RecordWriter, at_once, push_record, small_log

from fleetgauge.base.clock import MockTime
from fleetgauge.node.config import ConfigError, ServiceConfig, load_config
from fleetgauge.node.config.push_logs import embedded_logs
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.processes.exporter_job import Job
from fleetgauge.node.processes.workers.merge import counts_of, merged_clients, merged_own_metrics, merged_parts
from fleetgauge.node.processes.workers.questions import PART_ROWS, WorkersSocket
from fleetgauge.node.processes.workers.shares import DIVIDED, as_json, worker_config
from fleetgauge.node.processes.workers.supervisor import WorkerSupervisor
from fleetgauge.node.reconfiguration import Changes
from fleetgauge.node.worker import examine
from fleetgauge.telemetry.instances.client_metrics import INSTANCE_METRICS
from fleetgauge.telemetry.instances.inventory import ClientRow

PORTS = {"PLAINTEXT": 4711}


def config_of(tmp_path: Path, *overrides: str) -> ServiceConfig:
    return load_config(overrides=[f"log.dirs={tmp_path}", "listeners=PLAINTEXT://127.0.0.1:0", *overrides])


def worker(config: ServiceConfig, number: int = 1) -> ServiceConfig:
    return worker_config(config, number, cluster_id="c", ports=PORTS)


def listener(**changed: Any) -> dict[str, Any]:
    counted = {"accepted": 5, "closed": {"idle": 1}, "requests": {"PUSH_TELEMETRY": 9}}
    return {"listener": "PLAINTEXT", "security_protocol": "PLAINTEXT", "open": 2, **counted, **changed}


def status(**changed: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "node": {"pid": 1},
        "connections": [listener()],
        "telemetry": {
            "subscriptions": ["all"],
            "unmatched_prefixes": {"all": {"x.": "y."}},
            "client_guard": {"rule": {"action": "withhold", "reason": "why", "subscriptions": 3}},
            "push_answers": {"NONE": 7},
            "refusals": {"INVALID_RECORD": {"broken": 1}},
            "counters": {"instances": 4, "instances_evicted": 2, "instances_with_metrics": 1},
            "client_metrics": {"instance-count": 4.0, "throttle-count": 6.0, "throttle-rate": 0.5},
        },
        "push_log": {"logged": 7, "pending": 1},
    }
    return {**found, **changed}


def row(**changed: Any) -> list[Any]:
    blank: dict[str, Any] = {
        "client_instance_id": "id",
        "client_id": "c",
        "client_software_name": "s",
        "client_software_version": "1",
        "principal": "User:ANONYMOUS",
        "client_source_address": "127.0.0.1",
        "client_source_port": 1,
        "listener": "PLAINTEXT",
        "connections": 1,
        "state": "live",
        "subscriptions": ["all"],
        "metrics": ["*"],
        "push_interval_ms": 1_000,
        "subscription_id": 5,
        "pushes": 0,
        "push_bytes": 0,
        "last_push_at": None,
        "last_seen_at": 100,
        "refused": 0,
        "last_error": None,
        "last_error_reason": None,
        "last_error_at": None,
        "asked_for_records": False,
    }
    return list(ClientRow(**{**blank, **changed}))


def test_limits_of_what_a_process_holds_are_divided_and_rounded_up(tmp_path: Path) -> None:
    config = config_of(tmp_path, "workers=3", "telemetry.client.instances.max=10", "max.unfinished.handshakes=2")
    share = worker(config)
    assert (share.client_instances_max, share.max_unfinished_handshakes) == (4, 1)
    assert share.client_instance_metrics_max == 0
    assert share.push_log_segment_bytes * 3 >= config.push_log_segment_bytes > share.push_log_segment_bytes


def test_a_share_is_never_less_than_what_is_needed_to_serve_one_client(tmp_path: Path) -> None:
    config = config_of(
        tmp_path,
        "workers=64",
        "telemetry.client.instances.max=1",
        "queued.max.request.bytes=20000000",
        "push.log.segment.bytes=1048576",
    )
    share = worker(config)
    assert share.client_instances_max == 1
    assert share.queued_max_request_bytes == config.socket_request_max_bytes
    assert share.push_log_segment_bytes == 1_048_576


def test_everything_else_of_a_worker_is_as_the_operator_wrote_it(tmp_path: Path) -> None:
    config = config_of(tmp_path, "workers=2", "client-metrics.a.metrics=b.", "telemetry.max.bytes=5")
    share = worker(config, 2)
    own = {*DIVIDED, "listeners", "log_dirs", "audit_log_file", "cluster_id", "exporters", "http_listeners"}
    assert share.audit_log_file == tmp_path / "audit.log"
    for name in ServiceConfig.model_fields:
        assert name in own or getattr(share, name) == getattr(config, name), name
    assert (share.listeners[0].port, share.log_dirs, share.cluster_id) == (4711, tmp_path / "workers" / "2", "c")
    assert (share.exporters, share.http_listeners) == ({}, ())


def test_a_listeners_own_limits_are_divided_and_those_of_an_address_are_not(tmp_path: Path) -> None:
    limits = ("max.connections=9", "max.connections.per.ip=5", "listener.name.plaintext.max.connections=7")
    config = worker(config_of(tmp_path, "workers=2", *limits))
    assert (config.max_connections, config.max_connections_per_ip) == (5, 5)
    assert config.security_keys().by_listener["PLAINTEXT"].max_connections == 4


def test_a_worker_gets_the_quotas_of_the_whole_node(tmp_path: Path) -> None:
    """It enforces its share, and reports the limits to admin tools as they were set."""
    share = worker(config_of(tmp_path, "workers=2", "quotas.users/alice.request_percentage=50"))
    assert (share.quotas, share.workers) == ({"users/alice": {"request_percentage": 50.0}}, 2)
    assert ServiceConfig.model_validate_json(json.dumps(as_json(share))) == share


def test_the_usage_of_a_quota_and_the_shares_of_its_limit_add_up_over_workers_and_go_with_one_that_ends() -> None:
    of_one = {"quotas": {"usage": {"Request": {"user=a": {"tags": {"user": "a"}, "used": 2.0, "limit": 5.0}}}}}
    whole = {"tags": {"user": "a"}, "used": 4.0, "limit": 10.0}
    assert merged_parts([of_one, of_one]) == {"quotas": {"usage": {"Request": {"user=a": whole}}}}
    assert merged_parts([counts_of(of_one), of_one]) == of_one


def test_a_workers_configuration_passes_a_pipe_unchanged(tmp_path: Path) -> None:
    config = load_config(
        overrides=[
            *(f"log.dirs={tmp_path}", "workers=2", "listeners=PLAINTEXT://127.0.0.1:0,OTHER://[::1]:9"),
            *("advertised.listeners=OTHER://broker.example:9", "client-metrics.a.match=client_id=c"),
            *("listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT", "ssl.enabled.protocols=TLSv1.3"),
            *("listener.name.other.connections.max.reauth.ms=5000", "ssl.principal.mapping.rules=DEFAULT"),
        ]
    )
    share = worker_config(config, 1, cluster_id="c", ports={**PORTS, "OTHER": 9})
    assert ServiceConfig.model_validate_json(json.dumps(as_json(share))) == share


def test_a_worker_takes_over_only_what_it_has_found_good(tmp_path: Path) -> None:
    offered: dict[int, Any] = {}
    good = as_json(worker(config_of(tmp_path, "workers=2")))
    assert examine(Changes.of, 1, good, offered) == ""
    assert offered.keys() == {1}
    secure = config_of(tmp_path, "listeners=SSL://127.0.0.1:0", "ssl.keystore.location=/nowhere.pem", "workers=2")
    bad = as_json(worker_config(secure, 1, cluster_id="c", ports={"SSL": 4711}))
    assert "ssl.keystore.location" in examine(Changes.of, 2, bad, offered)
    assert "workers" in examine(Changes.of, 3, {**good, "workers": 0}, offered)
    assert offered == {}


class Pipe:
    """A worker's standard input, and what its parent wrote."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def write(self, line: bytes) -> None:
        self.lines.append(json.loads(line))


def test_a_worker_that_starts_while_a_configuration_is_examined_gets_it_all_the_same(tmp_path: Path) -> None:
    """It was started with the old one, and has not examined the new one."""
    config = worker(config_of(tmp_path, "workers=2"))

    async def run() -> tuple[list[dict[str, Any]], WorkerSupervisor]:
        supervisor = WorkerSupervisor(1, config, MockTime())
        pipe = Pipe()
        supervisor._process = SimpleNamespace(pid=1, returncode=None, stdin=pipe)  # type: ignore[assignment]
        assert await supervisor.offer(7, config) == ""
        supervisor._read(b'{"ready": true}')
        supervisor.take(7, config)
        return pipe.lines, supervisor

    lines, supervisor = asyncio.run(run())
    assert [{"offer", "take"} & line.keys() for line in lines] == [{"offer"}, {"take"}]
    assert lines[0]["config"] == as_json(config)
    assert supervisor.config == config


def test_a_number_of_workers_that_is_none_is_refused() -> None:
    for wrong in ("0", "-1", "65", "two", "true"):
        with pytest.raises(ConfigError, match="workers"):
            load_config(overrides=[f"workers={wrong}"])


def test_where_processes_cannot_share_a_port_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ConfigError, match="only on Linux"):
        load_config(overrides=["workers=2"])
    assert load_config(overrides=["workers=1"]).workers == 1


def test_counters_and_levels_of_workers_add_up() -> None:
    parts = merged_parts([status(), status(connections=[listener(open=1, closed={"idle": 1, "protocol": 2})])])
    (connections,) = parts["connections"]
    assert (connections["open"], connections["accepted"]) == (3, 10)
    assert connections["closed"] == {"idle": 2, "protocol": 2}
    assert connections["security_protocol"] == "PLAINTEXT"
    telemetry = parts["telemetry"]
    assert telemetry["push_answers"] == {"NONE": 14}
    assert telemetry["refusals"] == {"INVALID_RECORD": {"broken": 2}}
    assert telemetry["client_guard"]["rule"] == {"action": "withhold", "reason": "why", "subscriptions": 6}
    assert telemetry["subscriptions"] == ["all"]
    assert telemetry["client_metrics"] == {"instance-count": 8.0, "throttle-count": 12.0, "throttle-rate": 1.0}
    assert parts["push_log"] == {"logged": 14, "pending": 2}


def test_a_worker_that_ended_leaves_what_it_counted_and_not_what_it_held() -> None:
    """Else the node's counters would fall, and a rate over them would show what never was."""
    parts = merged_parts([status(), counts_of(status())])
    assert (parts["connections"][0]["open"], parts["connections"][0]["accepted"]) == (2, 10)
    assert parts["telemetry"]["counters"] == {"instances": 4, "instances_evicted": 4, "instances_with_metrics": 1}
    assert parts["telemetry"]["client_metrics"] == {
        "instance-count": 4.0,
        "throttle-count": 12.0,
        "throttle-rate": 0.5,
    }
    assert parts["push_log"] == {"logged": 14, "pending": 1}


def test_a_value_that_one_worker_does_not_have_is_that_of_the_others() -> None:
    one = status(telemetry={"client_metrics": {"plugin-export-time-avg": None, "plugin-export-time-max": None}})
    other = status(
        telemetry={
            "client_metrics": {
                "plugin-export-rate": 2.0,
                "plugin-export-time-avg": 3.0,
                "plugin-export-time-max": 4.0,
            }
        }
    )
    found = merged_parts([one, other])["telemetry"]["client_metrics"]
    assert (found["plugin-export-time-avg"], found["plugin-export-time-max"]) == (3.0, 4.0)
    nothing = merged_parts([one, one])["telemetry"]["client_metrics"]
    assert (nothing["plugin-export-time-avg"], nothing["plugin-export-time-max"]) == (None, None)


def test_an_instance_that_two_workers_have_seen_is_one_row_of_its_latest_request() -> None:
    asked = row(last_seen_at=200, client_source_port=2, state="new", refused=1, last_error="X", last_error_at=150)
    pushed = row(last_seen_at=100, pushes=3, push_bytes=30, last_push_at=100)
    for rows in ([asked, pushed], [pushed, asked]):
        (found,) = merged_clients(rows)
        assert (found.client_source_port, found.last_seen_at) == (2, 200)
        assert (found.pushes, found.push_bytes, found.last_push_at) == (3, 30, 100)
        assert (found.connections, found.refused, found.last_error) == (2, 1, "X")
        assert found.state == "live"


def test_malformed_payloads_of_workers_are_summed_with_the_latest_reason() -> None:
    one = row(malformed=2, malformed_reason="invalid_utf8", malformed_detail="x", malformed_at=150)
    other = row(last_seen_at=200, malformed=1, malformed_reason="malformed_metrics_data", malformed_at=100)
    for rows in ([one, other, row()], [row(), other, one]):
        (found,) = merged_clients(rows)
        assert (found.malformed, found.malformed_reason, found.malformed_at) == (3, "invalid_utf8", 150)
        assert found.malformed_detail == "x"


def test_misdirected_clients_of_workers_are_listed_once_with_the_latest_first() -> None:
    def one(client_id: str, last_at: int, requests: int) -> dict[str, Any]:
        return {"client_id": client_id, "client_source_address": "a", "last_at": last_at, "requests": requests}

    def part(*latest: dict[str, Any]) -> dict[str, Any]:
        return {"misdirected_clients": {"requests": 9, "remembered_clients": 2, "latest_clients": list(latest)}}

    parts = [part(one("orders", 30, 2), one("audit", 10, 1)), part(one("orders", 20, 5)), counts_of(part())]
    assert merged_parts(parts) == {
        "misdirected_clients": {
            "requests": 27,
            "remembered_clients": 4,
            "latest_clients": [one("orders", 30, 7), one("audit", 10, 1)],
        }
    }


def test_a_client_that_asked_one_of_the_workers_for_records_is_marked() -> None:
    assert [each.asked_for_records for each in merged_clients([row(asked_for_records=True), row()])] == [True]
    assert [each.asked_for_records for each in merged_clients([row(), row()])] == [False]


def test_the_state_of_the_latest_request_counts() -> None:
    (found,) = merged_clients([row(last_seen_at=1, state="late"), row(last_seen_at=2, state="ended")])
    assert found.state == "ended"


@pytest.mark.parametrize(
    ("earlier", "later", "state"),
    [
        ("live", "vanished", "live"),
        ("vanished", "new", "live"),
        ("vanished", "ended", "ended"),
        ("ended", "vanished", "ended"),
        ("vanished", "vanished", "vanished"),
    ],
)
def test_a_client_is_vanished_only_where_no_worker_has_a_connection_of_it(earlier: str, later: str, state: str) -> None:
    rows = [row(last_seen_at=1, state=earlier, pushes=1), row(last_seen_at=2, state=later)]
    for order in (rows, rows[::-1]):
        (found,) = merged_clients(order)
        assert found.state == state


def test_an_id_under_two_principals_is_two_clients() -> None:
    assert len(merged_clients([row(), row(principal="User:other")])) == 2


def test_metrics_of_an_instance_that_two_workers_have_seen_are_one_series_each() -> None:
    names = [metric.name for metric in INSTANCE_METRICS]

    def of(**values: float) -> list[Any]:
        return ["id", *(values.get(name.replace("-", "_"), 0.0) for name in names)]

    busy = of(plugin_export_rate=3.0, plugin_export_count=30.0, plugin_export_time_avg=2.0, plugin_export_time_max=5.0)
    idle = of(throttle_count=1.0, plugin_export_time_avg=math.nan, plugin_export_time_max=math.nan)
    (found,) = merged_own_metrics([busy, idle])
    values = dict(zip(names, found[1:], strict=True))
    assert (values["plugin-export-count"], values["throttle-count"]) == (30.0, 1.0)
    assert (values["plugin-export-time-avg"], values["plugin-export-time-max"]) == (2.0, 5.0)
    ((_, *nothing),) = merged_own_metrics([idle, idle])
    assert math.isnan(dict(zip(names, nothing, strict=True))["plugin-export-time-avg"])


def test_each_worker_has_a_log_and_those_that_others_left_are_read_too(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    for path, pushes in ((data.push_log, 1), (data.worker(2).push_log, 0), (data.worker(3).push_log, 1)):
        path.mkdir(parents=True)
        with closing(RecordWriter(small_log(path), MockTime(), spawn=at_once)) as writer:
            for number in range(pushes):
                writer.append(push_record(number))
            writer.commit()
    (data.root / "workers" / "notes").mkdir()
    places = {place.name: place.is_abandoned for place in embedded_logs(config_of(tmp_path, "workers=2"))}
    assert places == {"worker-1": False, "worker-2": False, "node": True, "worker-3": True}
    alone = {place.name: place.is_abandoned for place in embedded_logs(config_of(tmp_path))}
    assert alone == {"node": False, "worker-3": True}


def test_a_node_that_never_had_workers_has_the_one_log_that_it_always_had(tmp_path: Path) -> None:
    assert Job.of_node(config_of(tmp_path)).logs == ()


def test_a_client_whose_second_connection_names_no_software_is_one_row() -> None:
    named = row(client_software_name="franz-go", client_software_version="1.21", last_seen_at=1, pushes=1)
    unnamed = row(client_software_name="unknown", client_software_version="unknown", last_seen_at=2, pushes=2)
    for rows in ([named, unnamed], [unnamed, named]):
        (found,) = merged_clients(rows)
        assert (found.client_software_name, found.client_software_version) == ("franz-go", "1.21")
        assert (found.pushes, found.last_seen_at) == (3, 2)
    other = row(client_software_name="franz-go", client_software_version="1.22")
    assert len(merged_clients([named, other, unnamed, other])) == 2


def test_the_departed_count_for_the_parts_in_which_rows_are_asked_for(tmp_path: Path) -> None:
    """Each part is joined in memory as a whole."""
    counters = {"instances": PART_ROWS, "instances_vanished": PART_ROWS, "instances_ended": PART_ROWS}
    workers = [SimpleNamespace(last={"telemetry": {"counters": counters}}), SimpleNamespace(last=None)]

    async def status() -> dict[str, Any]:
        return {}

    assert WorkersSocket(tmp_path / "node.sock", status, workers)._parts() == 4  # type: ignore[arg-type]

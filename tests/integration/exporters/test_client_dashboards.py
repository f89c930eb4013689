"""Dashboards and recording rules for client metrics, on what real clients of every library push.

Needs Prometheus: `apt-get install --no-install-recommends prometheus` on Debian.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
from integration.exporters.scraped_clients import ScrapedClients
from support.brokers.kafka_broker import MISSING as NO_BROKER
from support.clients.telemetry_clients import missing_tools
from support.receivers.prometheus_server import MISSING as NO_PROMETHEUS
from support.receivers.prometheus_server import PrometheusServer
from support.waiting import PATIENCE_S, ticking, wait_for

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]
RULES = ROOT / "deploy/helm/fleetgauge/rules/fleetgauge-clients.rules.yml"
DASHBOARDS = ROOT / "deploy/helm/fleetgauge/dashboards"
LIBRARIES = {"Java": "java", "librdkafka": "librdkafka", "franz-go": "franz-go"}
HALF = 0.6
"""More than what Java's consumers send that wait all the time, and less than what others send."""
AT_TIMES = "application:org_apache_kafka_consumer_fetch_manager_fetch_throttle_time_max:throttled"
"""A broker does not hold these consumers back in every run within that time: looked for in the long runs alone."""


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    if missing := NO_PROMETHEUS or NO_BROKER or missing_tools():
        pytest.skip(missing)
    directory = tmp_path_factory.mktemp("dashboards")
    with ScrapedClients(directory) as clients, PrometheusServer(directory, clients.target, RULES) as server:
        yield server


def dashboards() -> dict[str, dict[str, Any]]:
    """The dashboards of client metrics, by file name."""
    files = (file for file in DASHBOARDS.glob("*.json") if file.name != "fleetgauge-delivery.json")
    return {file.name: json.loads(file.read_text()) for file in files}


def queries() -> list[tuple[str, str, str]]:
    """Place, description and expression of every query of every panel."""
    return [
        (f"{name}: {panel['title']}: {target['legendFormat']}", panel["description"], target["expr"])
        for name, dashboard in dashboards().items()
        for panel in dashboard["panels"]
        for target in panel["targets"]
    ]


def senders(description: str) -> set[str]:
    """The libraries that a panel's description names as those that send what it shows."""
    _, named, libraries = description.partition("Sent by ")
    return {library for library in LIBRARIES if library in libraries} if named else set(LIBRARIES)


def chosen(expression: str, library: str) -> str:
    """The expression with the values that Grafana puts in when this library and its clients are chosen."""
    values = {"library": LIBRARIES.get(library, ".*"), "__rate_interval": "1m"}
    of_library = f"{LIBRARIES[library]}.*" if library in LIBRARIES else ".*"
    values |= dict.fromkeys(("application", "client", "group"), of_library)
    values |= dict.fromkeys(("cluster", "principal", "instance", "broker"), ".*")
    for name, value in values.items():
        expression = expression.replace(f"${name}", value)
    assert "$" not in expression, "a variable that no dashboard has"
    return expression


def wait_for_all(prometheus: PrometheusServer, expressions: dict[str, str]) -> None:
    """Waits until each of these expressions, by what it is, gives rows."""
    missing = dict(expressions)

    def look() -> dict[str, str]:
        for name in [name for name, expression in missing.items() if prometheus.query(expression)]:
            del missing[name]
        return missing

    wait_for(look, "rows of every expression; without rows are those seen", until=lambda without: not without)


def test_every_rule_records_something(prometheus: PrometheusServer) -> None:
    wait_for_all(prometheus, {"a first evaluation": "client:fleetgauge_client_info:application"})
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    names = {rule["name"] for rule in rules} - {AT_TIMES}
    wait_for_all(prometheus, {name: f'{{__name__="{name}"}}' for name in names})

    def health() -> set[tuple[str, str]]:
        rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
        return {(rule["health"], rule.get("lastError", "")) for rule in rules}

    wait_for(health, "healthy rules", until=lambda found: found == {("ok", "")})
    kept = {name for name in (rule["name"] for rule in rules) if name.startswith("client:")}
    assert kept == {"client:fleetgauge_client_info:application"}, "one recorded series per client, and no more"


@pytest.mark.soak
def test_consumers_that_a_quota_holds_back_are_counted(prometheus: PrometheusServer) -> None:
    expression = f'{{__name__="{AT_TIMES}"}}'
    assert any(prometheus.query(expression) for _ in ticking(900.0, every_s=0.5)), expression


def test_every_query_shows_what_real_clients_send(prometheus: PrometheusServer) -> None:
    """For some library each query has rows; each panel has rows for the libraries that its description names alone."""
    wait_for_all(prometheus, {place: chosen(expression, "all") for place, _, expression in queries()})
    panels: dict[str, list[str]] = {}
    named = {}
    for place, description, expression in queries():
        panel = place.rpartition(": ")[0]
        panels.setdefault(panel, []).append(expression)
        named[panel] = senders(description)
    for library in LIBRARIES:
        shown = {panel: " or ".join(f"({chosen(one, library)})" for one in found) for panel, found in panels.items()}
        wait_for_all(prometheus, {panel: shown[panel] for panel in shown if library in named[panel]})
        unexpected = [panel for panel in shown if library not in named[panel] and prometheus.query(shown[panel])]
        assert not unexpected, f"{library} sends what their descriptions deny"


def values_of(prometheus: PrometheusServer, expression: str, label: str) -> set[str]:
    """The values of a label in what an expression gives."""
    return {labels[label] for labels, _ in prometheus.query(expression) if labels.get(label)}


def test_every_variable_has_values_of_these_clients(prometheus: PrometheusServer) -> None:
    for name, dashboard in dashboards().items():
        for variable in dashboard["templating"]["list"][1:]:
            selector, _, label = variable["query"].removeprefix("label_values(").removesuffix(")").rpartition(", ")
            expression = chosen(selector, "all")
            wait_for(partial(values_of, prometheus, expression, label), f"{name}: {variable['name']}")


def test_applications_are_client_ids_without_what_numbers_their_instances(prometheus: PrometheusServer) -> None:
    numbered = {"java-4.4.0-producer-1", "java-4.4.0-producer-2"}

    def applications() -> list[dict[str, str]]:
        return [labels for labels, _ in prometheus.query("client:fleetgauge_client_info:application")]

    def are_whole(rows: list[dict[str, str]]) -> bool:
        """True once these clients, and one of each library, are there."""
        return numbered <= {row["client_id"] for row in rows} and len({row["library"] for row in rows}) > 2

    rows = wait_for(applications, "clients of every library", until=are_whole)
    assert {row["application"] for row in rows if row["client_id"] in numbered} == {"java-4.4.0-producer"}
    assert {row["library"] for row in rows} == set(LIBRARIES.values())


def test_only_members_without_partitions_are_idle(prometheus: PrometheusServer) -> None:
    """librdkafka's group has one member more than partitions."""
    idle = "group:org_apache_kafka_consumer_coordinator_assigned_partitions:idle"
    prometheus.wait_for(f'{idle}{{library="librdkafka"}}', 1)
    prometheus.wait_for(f'{idle}{{library!="librdkafka"}} or vector(0)', 0)


def test_waiting_in_poll_is_one_measure_over_libraries(prometheus: PrometheusServer) -> None:
    """Consumers that have little to do wait nearly all the time, also those of Java, which sends half of it.

    Java's is the average over some seconds of polls, of which each divides its time by that and the time since the
    poll before it began: 1 for the first, and about a half for one like the one before, somewhat more if it is longer.
    """
    raw, share = (
        "org_apache_kafka_consumer_poll_idle_ratio_avg",
        "group:org_apache_kafka_consumer_poll_idle_ratio_avg:min",
    )
    for library in ("java", "librdkafka"):
        prometheus.wait_for(f'{share}{{library="{library}"}} > {HALF}')
    prometheus.wait_for(f'max({raw}{{client_id=~"java.*"}}) < {HALF}')


def test_the_dashboards_are_those_that_are_made(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "tools/make_dashboards.py", tmp_path], check=True, timeout=PATIENCE_S)
    made = {file.name: file.read_text() for file in tmp_path.iterdir()}
    kept = {name: (DASHBOARDS / name).read_text() for name in dashboards()}
    assert kept == made, "run python tools/make_dashboards.py"


def test_grafanas_own_model_of_a_dashboard_has_every_key_of_ours() -> None:
    """It drops keys that it does not know without a word."""
    plugins.register_default_plugins()
    for file in DASHBOARDS.glob("*.json"):
        written = json.loads(file.read_text())
        read = json.loads(JSONEncoder().encode(Dashboard.from_json(written)))
        assert list(lost(written, read)) == [], file.name


def lost(written: Any, read: Any, place: str = "") -> Iterator[str]:
    """What of a document is not in the other."""
    if isinstance(written, dict) and isinstance(read, dict):
        for key, value in written.items():
            yield from lost(value, read.get(key), f"{place}.{key}")
    elif isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        for number, pair in enumerate(zip(written, read, strict=True)):
            yield from lost(*pair, f"{place}[{number}]")
    elif written != read:
        yield f"{place}: {written} became {read}"


def test_panels_have_a_place_a_unit_and_a_description() -> None:
    for name, dashboard in dashboards().items():
        cells = [
            (x, y)
            for grid in (panel["gridPos"] for panel in dashboard["panels"])
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        ]
        assert len(cells) == len(set(cells)), f"panels of {name} lie over each other"
        assert max(x for x, _ in cells) < 24, name
        assert all(panel["description"] and panel["fieldConfig"]["defaults"]["unit"] for panel in dashboard["panels"])


def test_links_open_dashboards_that_there_are_with_variables_that_they_have() -> None:
    """From the fleet to an application, to a client; from brokers and groups to clients."""
    variables = {
        dashboard["uid"]: {variable["name"] for variable in dashboard["templating"]["list"]}
        for dashboard in dashboards().values()
    }
    links = set(re.findall(r'"/d/([a-z-]+)\?var-([a-z]+)=', json.dumps(list(dashboards().values()))))
    assert {uid for uid, _ in links} == set(variables) - {"fleetgauge-fleet"}
    assert all(variable in variables[uid] for uid, variable in links)
    assert all("fleetgauge" in dashboard["tags"] and dashboard["links"] for dashboard in dashboards().values())


CASES = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
{series}
    promql_expr_test:
{expected}
"""


def test_averages_leave_out_links_that_measured_nothing_and_bootstrap_connections(tmp_path: Path) -> None:
    metric = "org_apache_kafka_producer_node_request_latency_avg"
    series = ""
    for number, (library, value) in enumerate((("java", 0), ("java", 8), ("librdkafka", 0), ("librdkafka", 8))):
        own = f'client_instance_id="{number}", client_id="a-{number}", application="a", library="{library}"'
        series += f"      - {{series: '{metric}{{{own}, node_id=\"1\"}}', values: '{value}x3'}}\n"
        series += f"      - {{series: '{metric}{{{own}, node_id=\"-1\"}}', values: '1000x3'}}\n"
    expected = ""
    for record, labels in ((f"application:{metric}:avg", 'application="a"'), (f"broker:{metric}:p95", 'node_id="1"')):
        expected += f"      - expr: {record}\n        eval_time: 2m\n        exp_samples:\n"
        for library, value in (("java", 8), ("librdkafka", 8)):
            expected += f"          - {{labels: '{record}{{{labels}, library=\"{library}\"}}', value: {value}}}\n"
    check_rules(tmp_path, series, expected)


def check_rules(directory: Path, series: str, expected: str) -> None:
    """Has promtool evaluate the rules over these series."""
    if NO_PROMETHEUS:
        pytest.skip(NO_PROMETHEUS)
    cases = directory / "cases.yml"
    cases.write_text(CASES.format(rules=RULES, series=series, expected=expected))
    for command in (("test", "rules", str(cases)), ("check", "rules", str(RULES))):
        done = subprocess.run(["promtool", *command], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stdout + done.stderr

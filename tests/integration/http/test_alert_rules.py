"""The alert rules and the dashboard of deliveries, against a real Prometheus that scrapes a real `fleetgauge serve`
and a real `fleetgauge export` over a topic.

Needs Prometheus: `apt-get install --no-install-recommends prometheus` on Debian, or any `prometheus` and `promtool` on
the PATH.
"""

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from support.brokers.kafka_broker import KafkaBroker
from support.brokers.plugin_records import Brokers
from support.clients.raw_client import RawClient
from support.http import get_url
from support.payloads.payloads import metrics_data
from support.ports import free_port
from support.programs.export import Export
from support.programs.node import Node
from support.receivers.webhook import Webhook
from support.waiting import PATIENCE_S, follow, unfollow, wait_for

from fleetgauge.push_log.kafka_topic.clients import make_admin
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.kafka_topic.topic import ensure_topic

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        shutil.which("prometheus") is None or shutil.which("promtool") is None,
        reason="needs Prometheus: apt-get install --no-install-recommends prometheus",
    ),
]

EXAMPLES = Path(__file__).parents[3] / "examples"
CHART = Path(__file__).parents[3] / "deploy/helm/fleetgauge"
RULES = CHART / "rules/fleetgauge.rules.yml"
DASHBOARD = CHART / "dashboards/fleetgauge-delivery.json"
_NAME = re.compile(r"\bfleetgauge_[a-z_]+")
_FAMILY = re.compile(r"_(total|bucket)$")
"""What a sample's name has more than that of its family, in OpenMetrics."""
_GRAFANA = {"$instance": ".+", "$exporter": ".+", "$__rate_interval": "1m"}
"""What Grafana puts in the place of its variables."""


T = TypeVar("T")


class Prometheus:
    """A server of its own that scrapes one address once a second."""

    def __init__(self, directory: Path, target: str) -> None:
        self.port = free_port()
        config = directory / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
            f"rule_files: ['{RULES}']\n"
            f"scrape_configs: [{{job_name: fleetgauge, static_configs: [{{targets: ['{target}']}}]}}]\n"
        )
        self._log = directory / "prometheus.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={config}",
                    f"--storage.tsdb.path={directory / 'tsdb'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                ],
                stdout=log,
                stderr=log,
            )
        follow(self._log)

    def ask(self, path: str, **query: str) -> Any:
        """The data that the API answers with; raises OSError where it refuses."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
            answer = json.load(response)
        assert answer["status"] == "success", answer
        return answer["data"]

    def rules(self) -> dict[str, dict[str, Any]]:
        """Every rule by its name."""
        return {rule["name"]: rule for group in self.ask("rules")["groups"] for rule in group["rules"]}

    def result(self, expression: str) -> list[Any]:
        """What an expression gives now."""
        found: list[Any] = self.ask("query", query=expression)["result"]
        return found

    def wait_for(self, read: Callable[[], T], what: str, until: Callable[[T], object] = bool) -> T:
        """`wait_for`, while the server may not answer yet."""
        return wait_for(read, what, until=until, ignoring=(OSError,))

    def kill(self) -> None:
        unfollow(self._log)
        self.process.kill()
        self.process.wait()


@dataclass
class Scraped:
    """A process of one of the forms, its HTTP port, and the Prometheus that scrapes it."""

    form: str
    url: str
    prometheus: Prometheus


OTHERS = {"serve": "(topic)", "export": "(serve)"}
"""By form, the mark of what belongs to the other one on the dashboard; the groups of rules are named for their form."""


@pytest.fixture(scope="module", params=["serve", "export"])
def scraped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """A process with an exporter that delivers, one whose destination is away, and one that refuses; and Prometheus."""
    directory = tmp_path_factory.mktemp("scraped")
    with pytest.MonkeyPatch.context() as patch, Webhook() as hook, Webhook() as away:
        patch.setenv("PYTHONPATH", str(EXAMPLES))
        patch.syspath_prepend(str(EXAMPLES))
        away.stop()
        hook.refuses = lambda push: push["client_id"] == "bad"
        tables = [f'[exporters.landing]\ntype = "landing"\npath = "{directory / "landing"}"\n"linger.ms" = 100\n']
        for name, served in (("hook", hook), ("away", away)):
            kind = "webhook_exporter:webhook_exporter"
            tables.append(f'[exporters.{name}]\ntype = "{kind}"\nurl = "{served.url}"\n"linger.ms" = 50\n')
        running = serving if request.param == "serve" else exporting
        with running(request, directory, "".join(tables)) as status:
            wait_for(status, "each to do its part", until=all_did_their_part, ignoring=(ValueError,))
            url = str(status()["http"]["listeners"][0])
            prometheus = Prometheus(directory, url.removeprefix("http://"))
            try:
                scraped_twice = "count_over_time(fleetgauge_ready[1m]) > 1"
                prometheus.wait_for(lambda: prometheus.result(scraped_twice), "two scrapes")
                yield Scraped(request.param, url, prometheus)
            finally:
                prometheus.kill()


Status = Callable[[], dict[str, Any]]


@contextmanager
def serving(_: pytest.FixtureRequest, directory: Path, tables: str) -> Iterator[Status]:
    with Node(directory, "http.listeners=http://127.0.0.1:0", config=tables) as node:
        for client_id in ("good", "bad"):
            with RawClient(node.port, client_id=client_id) as client:
                assert client.push(client.get(), metrics_data()).error_code == 0
        yield node.status


@contextmanager
def exporting(request: pytest.FixtureRequest, directory: Path, tables: str) -> Iterator[Status]:
    broker: KafkaBroker = request.getfixturevalue("broker")
    name = f"scraped-{uuid.uuid4().hex[:12]}"
    topic = KafkaTopicSettings(bootstrap_servers=broker.bootstrap, topic=name, partitions=2, group_prefix=name)
    ensure_topic(make_admin(topic), topic)
    brokers = Brokers(topic)
    for client_id in ("good", "bad"):
        brokers.push(client_id)
    config = directory / "export.toml"
    config.write_text(
        f'push.log.type = "kafka"\npush.log.kafka.bootstrap.servers = "{broker.bootstrap}"\n'
        f'push.log.kafka.topic.name = "{name}"\npush.log.kafka.group.prefix = "{name}"\n{tables}'
    )
    with Export(directory, config, "http.listeners=http://127.0.0.1:0") as export:
        yield export.status


def all_did_their_part(status: dict[str, Any]) -> bool:
    exporters = status["exporter_process"]["exporters"]
    try:
        return bool(
            exporters["hook"]["letters"] == 1
            and exporters["away"]["retried"]
            and exporters["away"]["lag_records"]
            and exporters["landing"]["delivered_records"] == 2
        )
    except KeyError:  # what it says of an exporter may come yet
        return False


def dashboard_expressions(form: str) -> list[str]:
    """What the panels ask of this form."""
    targets = [
        (panel["title"] + target["legendFormat"], target["expr"])
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        for target in panel["targets"]
    ]
    found = [expression for title, expression in targets if OTHERS[form] not in title]
    assert 0 < len(found) < len(targets)
    for variable, value in _GRAFANA.items():
        found = [expression.replace(variable, value) for expression in found]
    assert not [expression for expression in found if "$" in expression], "a variable that Grafana has no value for"
    return found


def test_every_rule_is_evaluated_and_reads_metrics_that_there_are(scraped: Scraped) -> None:
    prometheus = scraped.prometheus
    prometheus.wait_for(
        lambda: {name: rule["health"] for name, rule in prometheus.rules().items()},
        "healthy rules",
        lambda found: set(found.values()) == {"ok"},
    )
    other = {"serve": "fleetgauge-export", "export": "fleetgauge-serve"}[scraped.form]
    groups = {group["name"]: group["rules"] for group in prometheus.ask("rules")["groups"]}
    assert groups.keys() == {"fleetgauge-delivery", "fleetgauge-serve", "fleetgauge-export"}
    for group, rules in groups.items():
        for rule in rules:
            names = set(_NAME.findall(rule["query"]))
            assert names, rule["name"]
            if group != other:
                prometheus.wait_for(
                    partial(unknown, names, prometheus), f"all that {rule['name']} reads", lambda lacking: not lacking
                )
            elif scraped.form == "export":
                assert unknown(names, prometheus), f"{rule['name']} is a rule for exports, too"
            assert {"summary"} <= set(rule["annotations"])


def unknown(names: set[str], prometheus: Prometheus) -> set[str]:
    """Those of these names of samples of which Prometheus has scraped no family."""
    known = prometheus.ask("metadata")
    return {name for name in names if _FAMILY.sub("", name) not in known}


def test_the_rules_see_what_is_wrong_and_nothing_else(scraped: Scraped) -> None:
    prometheus = scraped.prometheus

    def alerting() -> set[str]:
        return {name for name, rule in prometheus.rules().items() if rule["state"] != "inactive"}

    wanted = {"FleetgaugeDeadLetters", "FleetgaugeExporterRetrying"}
    # Where the tests before took five minutes, what waits for the destination that is away is that old.
    prometheus.wait_for(alerting, f"{wanted}", lambda found: found - {"FleetgaugeExporterBehind"} == wanted)
    [letter] = prometheus.wait_for(
        lambda: prometheus.rules()["FleetgaugeDeadLetters"]["alerts"],
        "the alert to fire",
        lambda alerts: [each["state"] for each in alerts] == ["firing"],
    )
    assert letter["labels"]["exporter"] == "hook"
    assert letter["annotations"]["summary"] == "1 pushes are refused by hook"
    [retrying] = prometheus.wait_for(
        lambda: prometheus.rules()["FleetgaugeExporterRetrying"]["alerts"], "the other alert"
    )
    assert retrying["labels"]["exporter"] == "away"


HANGS = """
rule_files: [{rules}]
evaluation_interval: 30s
tests:
  - interval: 30s
    input_series:
      - {{series: 'fleetgauge_exporter_process_up{{instance="a"}}', values: '1x40'}}
      - {{series: 'fleetgauge_exporter_status_age_seconds{{instance="a"}}', values: '0x4 30+30x36'}}
      - {{series: 'fleetgauge_exporter_state{{instance="a", exporter="x", state="running"}}', values: '1x40'}}
      - {{series: 'fleetgauge_exporter_lag_seconds{{instance="a", exporter="x"}}', values: '1x40'}}
      - series: 'fleetgauge_exporter_oldest_undelivered_timestamp_seconds{{instance="a", exporter="x"}}'
        values: '119x40'
    alert_rule_test:
      - {{eval_time: 2m, alertname: FleetgaugeExporterProcessSilent, exp_alerts: []}}
      - eval_time: 5m
        alertname: FleetgaugeExporterProcessSilent
        exp_alerts:
          - exp_labels: {{severity: critical, instance: a}}
            exp_annotations:
              summary: "The exporter process of a has said nothing for 3m 0s"
              description: "It runs and hangs, or cannot read the push log. The node's log says more."
      - {{eval_time: 6m, alertname: FleetgaugeExporterBehind, exp_alerts: []}}
      - eval_time: 13m
        alertname: FleetgaugeExporterBehind
        exp_alerts:
          - exp_labels: {{severity: warning, instance: a, exporter: x}}
            exp_annotations:
              summary: "x of a is 11m 1s behind"
              description: >-
                Nothing is lost while the log has room. fleetgauge status --exporters shows its answers.
"""
"""A process that hangs after two minutes: what it said of its exporter last stands still."""


CASES = {
    "FleetgaugeExporterHung": ("exporter_process_hangs_total", "0x20 1x20", "0x40"),
    "FleetgaugeHttpLoginsFail": ('http_failed_authentications_total{reason="wrong_password"}', "0x20 1+2x20", "3x40"),
    "FleetgaugeCertificateExpires": (
        'certificate_expiry_timestamp_seconds{use="http", name=""}',
        "1000000x40",
        "100000000x40",
    ),
    "FleetgaugeCertificateExpired": (
        'certificate_expiry_timestamp_seconds{use="http", name=""}',
        "60x40",
        "1000000x40",
    ),
    "FleetgaugeInstancesEvicted": ("client_instances_evicted_total", "0x20 1+1x20", "7x40"),
    "FleetgaugeInstanceIdClashes": ("client_instance_id_clashes_total", "0x20 1+1x20", "0x39 1"),
    "FleetgaugeAcceptErrors": ('accept_errors_total{listener="PLAINTEXT"}', "0x20 1+1x20", "5x40"),
}
"""By alert: the metric, values with which it fires in the end, and others with which it does not."""


@pytest.mark.parametrize("is_wrong", [True, False])
def test_what_is_wrong_fires_its_alert_and_nothing_else_does(tmp_path: Path, is_wrong: bool) -> None:
    cases = []
    for alert, (metric, wrong, right) in CASES.items():
        name, _, labels = metric.partition("{")
        series = f'fleetgauge_{name}{{instance="a"{"," if labels else ""}{labels or "}"}'
        cases.append(_case([(series, wrong if is_wrong else right)], alert, fires=is_wrong))
    both = [(f'fleetgauge_failed_{kind}_total{{instance="a", listener="X"}}', "0x20 9+9x20") for kind in _KINDS]
    cases.append(
        _case(both if is_wrong else [(each, "4x40") for each, _ in both], "FleetgaugeLoginsFail", fires=is_wrong)
    )
    down = [('up{job="f", instance="a"}', "1x10 0x30"), ('fleetgauge_ready{job="f", instance="a"}', "1x10 _x30")]
    stranger = [('up{job="f", instance="a"}', "1x10 0x30")]
    cases.append(_case(down if is_wrong else stranger, "FleetgaugeNodeDown", fires=is_wrong))
    file = tmp_path / "cases.json"  # which is YAML
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "30s", "tests": cases}))
    checked = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


_KINDS = ("authentications", "reauthentications")


def _case(series: list[tuple[str, str]], alert: str, *, fires: bool) -> dict[str, Any]:
    """A test of promtool's: whether the alert fires after 19 minutes, whatever its labels and words."""
    expression = f'count(ALERTS{{alertname="{alert}", alertstate="firing"}}) or vector(0)'
    return {
        "interval": "30s",
        "input_series": [{"series": name, "values": values} for name, values in series],
        "promql_expr_test": [
            {"expr": expression, "eval_time": "19m", "exp_samples": [{"labels": "{}", "value": int(fires)}]}
        ],
    }


def test_an_exporter_process_that_hangs_is_seen_though_what_it_said_last_looks_well(tmp_path: Path) -> None:
    cases = tmp_path / "cases.yml"
    cases.write_text(HANGS.format(rules=RULES))
    checked = subprocess.run(["promtool", "test", "rules", cases], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_panel_of_the_dashboard_shows_something(scraped: Scraped) -> None:
    prometheus = scraped.prometheus
    for expression in dashboard_expressions(scraped.form):
        # Of a state that comes and goes, such as a lag, one of the next scrapes tells.
        prometheus.wait_for(partial(prometheus.result, expression), expression)
    assert prometheus.ask("label/exporter/values", **{"match[]": "fleetgauge_exporter_state"}) == [
        "away",
        "hook",
        "landing",
    ]


def test_the_dashboard_is_made_as_grafana_reads_it() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells)), "panels lie over each other"
    assert {x for x, _ in cells} == set(range(24))
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert variables == {"datasource", "instance", "exporter"}
    assert all(panel["description"] and panel["fieldConfig"]["defaults"]["unit"] for panel in panels)


def test_promtool_finds_nothing_wrong_with_our_own_metrics(scraped: Scraped) -> None:
    page = get_url(scraped.url, "/metrics").body.decode()
    ours = "".join(line + "\n" for line in page.splitlines() if "fleetgauge_" in line)
    assert "fleetgauge_exporter_freshness_seconds_bucket" in ours
    linted = subprocess.run(["promtool", "check", "metrics"], input=ours, capture_output=True, text=True, check=False)
    assert (linted.returncode, linted.stdout + linted.stderr) == (0, "")

"""What an operator sees of verdicts, on tables that `fleet run` made of a simulated fleet."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner, Result

from fleetgauge.cli.fleet.app import app
from fleetgauge.fleet.engines.engine import InProcess
from fleetgauge.fleet.pipeline.memories import are_by_other_rules
from fleetgauge.fleet.pipeline.of_verdicts import replace_verdicts
from fleetgauge.fleet.tables.catalog import Table
from fleetgauge.fleet.tables.store import Store
from fleetgauge.testkit.simulate.plan import BEGIN
from fleetgauge.verdicts.rules import parse_rules

pytestmark = pytest.mark.integration

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fleet whose client `billing` hardly polls in its second half hour, and on."""
    root = tmp_path_factory.mktemp("shown")
    with_ = "slow-processing@billing:25m..72m"
    made = fleet("simulate", root / "out", "--clients", "40", "--hours", "1.2", "--seed", "4", "--with", with_)
    assert made.exit_code == 0, made.output
    done = fleet("run", "--source", root / "out" / "landing", "--tables", root / "tables")
    assert done.exit_code == 0, done.output
    return root / "tables"


def fleet(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def rows_of(tables: Path, name: str) -> Rows:
    rows: Rows = DeltaTable(str(tables / name)).to_pyarrow_table().to_pylist()
    return rows


def explained(tables: Path, *words: str) -> Rows:
    found = fleet("explain", *words, "--tables", tables, "--format", "json")
    assert (found.exit_code, found.stderr) == (0, "")
    rows: Rows = json.loads(found.stdout)
    return rows


def test_the_list_has_every_cause_and_machine_forms_every_row(tables: Path) -> None:
    listed = fleet("verdicts", "--tables", tables)
    assert listed.exit_code == 0, listed.output
    assert "slow-processing  client billing" in listed.stdout
    assert f"Judged: {len(rows_of(tables, 'silver/clients')):,} client instances" in listed.stdout
    found = json.loads(fleet("verdicts", "--tables", tables, "--format", "json").stdout)
    assert len(found) == len(rows_of(tables, "gold/verdicts")) > 0


def test_no_verdict_is_a_line_that_says_what_was_asked_and_judged(tables: Path) -> None:
    found = fleet("verdicts", "--tables", tables, "--principal", "User:none", "--fail-on", "warning")
    assert found.exit_code == 0
    (line,) = found.stdout.splitlines()
    assert line.startswith("No verdicts of the principal User:none. Judged: ")


def test_fail_on_fails_for_open_verdicts(tables: Path) -> None:
    assert fleet("verdicts", "--tables", tables, "--state", "open", "--fail-on", "warning").exit_code == 4
    assert fleet("verdicts", "--tables", tables, "--state", "cleared", "--fail-on", "warning").exit_code == 0


def test_coverage_is_a_line_per_verdict_and_each_reason_once(tables: Path) -> None:
    lines = fleet("verdicts", "--coverage", "--tables", tables).stdout.splitlines()
    rows = json.loads(fleet("verdicts", "--coverage", "--tables", tables, "--format", "json").stdout)
    libraries = lines[0].split()[1:]
    assert set(libraries) == {row["library"] for row in rows}
    (cells,) = [
        dict(zip(libraries, line.split()[1:], strict=True)) for line in lines if line.startswith("tiny-fetches ")
    ]
    assert (cells["java"], cells["librdkafka"], cells["franz-go"]) == ("yes", "no", "no")
    (reason,) = [line for line in lines if line.endswith(": librdkafka does not send what it is judged by.")]
    assert "tiny-fetches" in reason


def test_a_client_is_explained_by_its_verdicts_figures_and_instances(tables: Path) -> None:
    (found,) = explained(tables, "billing", "--kind", "client")
    open_ = {row["verdict"] for row in found["verdicts"] if row["state"] == "open"}
    told = {row["verdict"] for row in (*found["suspected"], *found["coverage"])}
    assert found["fine"]
    assert set(found["fine"]).isdisjoint(open_ | told)
    assert (found["kind"], found["subject"]) == ("client", "billing")
    assert "slow-processing" in [row["verdict"] for row in found["verdicts"]]
    series = {each["metric"]: each for each in found["over_time"]["series"]}
    polls = series["poll_idle_ratio_avg"]
    assert polls["now"] < 0.1 < 0.3 < polls["before"]
    assert len(polls["values"]) == len(found["over_time"]["windows"])
    own = [row for row in rows_of(tables, "silver/clients") if row["client_id"] == "billing"]
    assert found["instance_count"] == len(own)
    assert {row["client_instance_id"] for row in found["instances"]} == {row["client_instance_id"] for row in own}
    assert sum(sum(version["instances"].values()) for version in found["versions"]) == len(own)


def test_the_page_has_plots(tables: Path) -> None:
    page = fleet("explain", "client", "billing", "--tables", tables)
    assert page.exit_code == 0, page.output
    (plot,) = [line for line in page.stdout.splitlines() if line.startswith("idle in poll()")]
    assert "█" in plot
    assert "▁" in plot


def test_what_its_own_instances_do_not_send_is_not_judged(tables: Path) -> None:
    for row in rows_of(tables, "silver/clients"):
        if row["dialect"] == "franz-go" and row["role"] == "consumer":
            (found,) = explained(tables, row["client_instance_id"])
            assert "slow-processing" in [each["verdict"] for each in found["coverage"]]
            figures = [each["name"] for each in found["over_time"]["series"]]
            assert {"longest request", "longest commit"} <= set(figures)
            assert {"request latency", "commit latency"}.isdisjoint(figures)
            page = fleet("explain", row["client_instance_id"], "--tables", tables).stdout
            (line,) = [line for line in page.splitlines() if "slow-processing" in line and "franz-go does not" in line]
            assert page.index("Not judged") < page.index(line)
            return
    pytest.fail("the fleet has no franz-go consumer")


def test_a_path_of_franz_go_is_plotted_by_its_longest_requests(tables: Path) -> None:
    clients = rows_of(tables, "silver/clients")
    client = next(row for row in clients if (row["dialect"], row["role"]) == ("franz-go", "producer"))
    (found,) = explained(tables, f"{client['client_id']}@1", "--kind", "path")
    (series,) = [each for each in found["over_time"]["series"] if each["metric"] == "request_latency_avg_ms"]
    assert series["name"] == "longest request"
    assert min(value for value in series["values"] if value is not None) > 1


def test_a_node_is_explained_beside_the_other_nodes(tables: Path) -> None:
    for found in explained(tables, "node", "1"):
        (series,) = found["over_time"]["series"]
        assert (found["kind"], series["metric"]) == ("node", "request_latency_avg_ms")
        assert series["now"] > 0
        assert series["peers"] > 0
        assert found["instances"] == []
        assert [*found["fine"], *(row["verdict"] for row in found["coverage"])] == ["slow-node"]
    assert "Fine: slow-node." in fleet("explain", "node", "1", "--tables", tables).stdout


def test_a_path_is_explained_beside_its_clients_other_nodes(tables: Path) -> None:
    rows = rows_of(tables, "gold/latency")
    link = next(row for row in rows if row["role"] == "producer" and row["node_id"] > 0)
    (found,) = explained(tables, f"{link['client_id']}@{link['node_id']}", "--cluster-id", link["cluster_id"])
    (series,) = found["over_time"]["series"]
    assert (found["kind"], found["over_time"]["peers_are"]) == ("path", "the other nodes of its clients")
    assert [*found["fine"], *(row["verdict"] for row in found["coverage"])] == ["slow-path"]
    assert series["now"] > 0


def test_a_client_of_which_no_window_is_known_is_explained_by_the_rest(tables: Path) -> None:
    page = fleet("explain", "billing", "--tables", tables, "--since", "2999-01-01").stdout
    assert "No figures over time" in page
    assert "Not judged" not in page, "what it sends is not known either"
    assert "It sends the metrics" not in page
    assert "slow-processing  client billing" in page


def test_a_group_and_a_version_are_explained(tables: Path) -> None:
    row = next(row for row in rows_of(tables, "silver/clients") if row["group_id"])
    (group,) = explained(tables, row["group_id"], "--kind", "group", "--cluster-id", row["cluster_id"])
    assert row["client_instance_id"] in {each["client_instance_id"] for each in group["instances"]}
    version = f"{row['client_software_name']}/{row['client_software_version']}"
    (found,) = explained(tables, version, "--cluster-id", row["cluster_id"])
    assert (found["kind"], [each["software"] for each in found["versions"]]) == ("version", [version])


def test_subjects_called_alike_are_all_explained_and_cluster_chooses(tables: Path) -> None:
    clusters = {row["cluster_id"] for row in rows_of(tables, "gold/latency") if row["node_id"] == 1}
    found = explained(tables, "1")
    assert [each["cluster_id"] for each in found] == sorted(clusters)
    assert [each["cluster_id"] for each in explained(tables, "1", "--cluster-id", max(clusters))] == [max(clusters)]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["biling"], "the tables have no client, instance, group, node, path or version 'biling': the nearest names"),
        (["--kind", "group", "zzzzzzzz"], "the tables have no group 'zzzzzzzz': fleet show clients lists"),
        (["node", "4711"], "the tables have no node '4711'"),
        (["node", "1", "--since", "2999-01-01"], "the tables have no node '1'"),
        (["99999999999999999999"], "'99999999999999999999'"),
        (["orders\x1b[2J"], "'orders\\x1b[2J'"),
        (["billing", "--cluster-id", "nosuch"], "'billing'"),
    ],
)
def test_an_unknown_subject_is_one_sentence_with_the_nearest_names(
    tables: Path, words: list[str], sentence: str
) -> None:
    found = fleet("explain", *words, "--tables", tables)
    assert (found.exit_code, found.stdout) == (1, "")
    (line,) = found.stderr.splitlines()
    assert sentence in line
    assert "biling" not in words or "billing" in line


def changes(tables: Path, since: datetime, *words: str) -> Result:
    return fleet("changes", "--tables", tables, "--since", since.isoformat(), *words)


def test_changes_are_what_came_left_opened_and_cleared_since(tables: Path) -> None:
    since = BEGIN + timedelta(minutes=10)
    found = json.loads(changes(tables, since, "--format", "json").stdout)
    times = [row["at"] for row in found]
    assert times == sorted(times, reverse=True)
    assert min(times) >= f"{since:%Y-%m-%dT%H:%M:%S}"
    opened = {(row["verdict"], row["subject"]) for row in found if row["change"] == "opened"}
    rows = rows_of(tables, "gold/verdicts")
    assert opened >= {(row["verdict"], row["subject"]) for row in rows if row["opened_at"] >= since}
    assert ("slow-processing", "billing") in opened
    first: dict[tuple[str, str], datetime] = {}
    for row in rows_of(tables, "silver/clients"):
        key = (row["cluster_id"], row["client_id"])
        first[key] = min(first.get(key, row["first_seen"]), row["first_seen"])
    came = {
        (row["cluster_id"], row["subject"])
        for row in found
        if (row["change"], row["subject_kind"]) == ("came", "client")
    }
    assert came == {key for key, at in first.items() if at >= since}


def test_a_verdict_opens_once_it_has_lasted_not_with_its_first_bad_window(tables: Path) -> None:
    row = next(row for row in rows_of(tables, "gold/verdicts") if row["verdict"] == "slow-processing")
    since = row["opened_at"] + timedelta(minutes=1)
    found = json.loads(changes(tables, since, "--format", "json").stdout)
    (opened,) = [each for each in found if (each["change"], each["verdict"]) == ("opened", "slow-processing")]
    after = datetime.fromisoformat(opened["at"]) - row["opened_at"]
    assert timedelta(minutes=10) < after <= timedelta(minutes=20)
    assert changes(tables, since, "--fail-on", "warning").exit_code == 4


def test_coverage_goes_by_the_rules_that_the_tables_were_judged_by(tables: Path, tmp_path: Path) -> None:
    own = tmp_path / "tables"
    shutil.copytree(tables, own)
    metric = "org.apache.kafka.consumer.poll.idle.ratio.avg"
    text = f'[idle-consumer]\nenabled = false\n[rules.busy]\nmetric = "{metric}"\nbelow = 0.2\n'
    every = [(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))]
    replace_verdicts(Store(str(own), {}), InProcess(), every, parse_rules(text), 300)
    rows = json.loads(fleet("verdicts", "--coverage", "--tables", own, "--format", "json").stdout)
    reasons = {(row["verdict"], row["library"], row["role"]): row["why_not"] for row in rows}
    assert reasons["idle-consumer", "java", "consumer"] == "the rules leave it out"
    assert reasons["busy", "java", "consumer"] is None
    assert reasons["busy", "franz-go", "consumer"] == f"{metric} did not come from franz-go: subscribe to its metrics"
    (found,) = explained(own, "billing", "--kind", "client")
    assert "the rules leave it out" in {row["why_not"] for row in found["coverage"]}


def test_other_rules_judge_anew_though_nothing_else_is_new(tables: Path, tmp_path: Path) -> None:
    own, rules = tmp_path / "tables", tmp_path / "rules.toml"
    shutil.copytree(tables, own)
    rules.write_text("[slow-processing]\nenabled = false\n")
    again = ["run", "--source", tables.parent / "out" / "landing", "--tables", own]
    said = fleet(*again, "--rules", rules).stdout
    assert said.endswith("the verdicts were evaluated again, with other rules than before\n")
    verdicts = {row["verdict"] for row in rows_of(own, "gold/verdicts")}
    assert verdicts == {row["verdict"] for row in rows_of(tables, "gold/verdicts")} - {"slow-processing"}
    assert "evaluated again" not in fleet(*again, "--rules", rules).stdout

    change = Store.change

    def cut_off(store: Store, table: Table, *arguments: Any, **named: Any) -> None:
        if table.name == waiting[0]:
            raise OSError("no space")
        change(store, table, *arguments, **named)

    waiting = ["verdicts", "judged"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Store, "change", cut_off)
        while waiting:
            assert fleet(*again).exit_code == 1
            del waiting[0]
    assert "evaluated again" in fleet(*again).stdout, "of a run that was cut off nothing counts as done"
    assert rows_of(own, "gold/verdicts") == rows_of(tables, "gold/verdicts")


def test_other_rules_leave_verdicts_alone_until_windows_are_old_enough(tables: Path, tmp_path: Path) -> None:
    own = tmp_path / "tables"
    shutil.copytree(tables, own)
    store, rules, before = Store(str(own), {}), parse_rules("[slow-node]\nfactor = 9"), rows_of(own, "gold/verdicts")
    span = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
    assert not replace_verdicts(store, InProcess(), [span], rules, 300, BEGIN)
    assert are_by_other_rules(store, rules, 300)
    assert rows_of(own, "gold/verdicts") == before
    assert not are_by_other_rules(store, rules, 600), "windows of that length were not judged"


@pytest.mark.parametrize("command", [["verdicts"], ["verdicts", "--coverage"], ["explain", "billing"], ["changes"]])
@pytest.mark.parametrize("harm", ["truncated", "no log", "missing"])
def test_damaged_tables_are_one_sentence_that_names_one(
    tables: Path, tmp_path: Path, command: list[str], harm: str
) -> None:
    own = tmp_path / "tables"
    shutil.copytree(tables, own)
    for table in (own / "gold" / "verdicts", own / "silver" / "clients"):
        files = [*table.glob("*.parquet")] if harm == "truncated" else [*table.glob("_delta_log/*.json")]
        for file in files:
            file.write_bytes(file.read_bytes()[:-100] if harm == "truncated" else b"{broken")
        if harm == "missing" and table.name == "clients":
            shutil.rmtree(table)
    found = fleet(*command, "--tables", own, *(["--since", BEGIN.isoformat()] if command == ["changes"] else []))
    assert (found.exit_code, found.stdout) == (1, "")
    assert "restore a backup, or run fleet run with an empty --tables directory" in found.stderr
    assert len(found.stderr.splitlines()) == 1


def test_changes_fail_for_verdicts_that_opened_since(tables: Path) -> None:
    assert changes(tables, BEGIN, "--fail-on", "warning").exit_code == 4
    late = changes(tables, BEGIN + timedelta(days=1), "--fail-on", "warning")
    assert late.exit_code == 0
    assert late.stdout.startswith("No changes since ")


def test_changes_from_before_the_tables_say_that_everything_is_new(tables: Path) -> None:
    assert changes(tables, BEGIN - timedelta(days=1)).stdout.startswith("The tables begin after ")


@pytest.mark.parametrize("command", [["explain", "billing"], ["changes"], ["verdicts"]], ids=lambda words: words[0])
def test_no_tables_is_one_sentence(command: list[str], tmp_path: Path) -> None:
    found = fleet(*command, "--tables", tmp_path)
    assert (found.exit_code, found.stdout) == (1, "")
    assert "there is no table verdicts in" in found.stderr

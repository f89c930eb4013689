"""The command line without Spark: help, and what is refused before a session starts."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import PATIENCE_S
from typer.testing import CliRunner

from fleetgauge.cli.fleet.app import app


def test_help_names_every_command_without_loading_pyspark() -> None:
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom fleetgauge.cli.fleet.app import app\n"
        "result = CliRunner().invoke(app, ['--help'])\n"
        "assert result.exit_code == 0, result.output\n"
        "names = ('run', 'show', 'maintain', 'watch', 'verdicts', 'explain', 'changes', 'report', 'whatif')\n"
        "assert all(name in result.output for name in names), result.output\n"
        "assert 'pyspark' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_S)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["show", "points", "--source", ".", "--columns", "value", "--format", "csv"],
            "--columns is for --format text",
        ),
        (["show", "points", "--columns", "value", "--format", "json"], "--columns is for --format text"),
        (["show", "points", "--source", ".", "--format", "parquet"], "add --output"),
        (["show", "points", "--source", ".", "--output", "somewhere"], "--format text is for the terminal"),
        (["explain", "orders", "--output", "somewhere"], "--format text is for the terminal"),
        (["run", "--format", "parquet"], "add --output"),
        (
            ["run", "--source", "kafka://a:1/t", "--kafka-jars", "/nosuch"],
            "--kafka-jars: there is no jar at /nosuch",
        ),
        (["show", "nosuch"], "there is no table nosuch: tables are points, pushes"),
        (["show", "points", "--output", "somewhere"], "--format text is for the terminal"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence_and_exit_code_1(arguments: list[str], sentence: str) -> None:
    check_refusal(arguments, sentence, exit_code=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["show", "inventory", "--since", "soon"], "'soon' is not a time"),
        (["show", "inventory", "--until="], "'' is not a time"),
        (["show", "inventory", "latency", "--format", "json"], "with --format, add --output"),
        (["show", "clients", "--source", "."], "clients is a table of fleet run: leave --source out"),
        (["show", "points", "--source", ".", "--group", "billing"], "--group chooses among rows of tables"),
        (["show", "points", "--metric", "a"], "--metric chooses among the points of a landing zone"),
        (["verdicts", "--since="], "'' is not a time"),
        (["explain", "billing", "--since="], "'' is not a time"),
        (["show", "latency", "--instance-id", "x"], "'x' is not a client instance id"),
        (["run", "--window", "7m"], "'7m' is not a window that divides a day"),
        (["run", "--days", "2026-01-01"], "--days says which days --rebuild computes: give both"),
        (["run", "--days", "2026-01-01..x", "--rebuild"], "'x' is not a day: use a date such as 2026-03-01"),
        (["run", "--continuous", "--rebuild"], "--fail-on-rejects are of one run: leave --continuous out"),
        (["run", "--continuous", "--trigger", "0s"], "--trigger is '0s': give a duration above zero"),
        (["run", "--conf", "executor.memory=2g"], "'executor.memory=2g' is not a setting of Spark"),
        (["run", "--source", "kafka://nobody"], "is not host:port"),
        (["report", "--kind", "node", "--output", "-"], "--kind and --cluster-id choose among the subjects"),
        (["maintain", "--retention", "long"], "'long' is not a time"),
        (["maintain", "--vacuum-after", "2999-01-01"], "take an age such as 90d, not a future time"),
    ],
)
def test_a_wrong_option_is_one_sentence_and_exit_code_2(arguments: list[str], sentence: str) -> None:
    check_refusal(arguments, sentence, exit_code=2)


def check_refusal(arguments: list[str], sentence: str, exit_code: int) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == exit_code
    assert result.stdout == ""
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--rules", "nosuch.toml"], "cannot read the rules in nosuch.toml: No such file or directory"),
        (["--late", "soon"], "--late is 'soon': give a duration up to 1d, such as 10s, 5m or 1h"),
        (["--trigger", "0s"], "--trigger is '0s': give a duration above zero and up to 30d, such as 10s, 5m or 1h"),
        (["--window", "7m"], "'7m' is not a window that divides a day"),
        (["--since", "soon"], "'soon' is not a time"),
        (["--webhook", "ftp://a"], "--webhook is not a URL: it has to begin with http:// or https://"),
        (["--webhook-header", "a"], "--webhook-header has the form 'Name: value'"),
        (["--alertmanager", "localhost:9093"], "--alertmanager is not a URL: it has to begin with http:// or"),
        (["--alertmanager-header", "a"], "--alertmanager-header has the form 'Name: value'"),
        (["--alertmanager-link", "a"], "--alertmanager-link has to be a URL with any of {id}, {verdict}"),
        (["--topic", "alerts"], "alerts is not a topic: give --topic kafka://host:port[,host:port]/topic"),
        (["--topic-config", "a"], "--topic-config is for a --topic kafka://host:port/topic"),
        (["--conf", "executor.memory=2g"], "'executor.memory=2g' is not a setting of Spark"),
        (["--source", "kafka://nobody"], "is not host:port"),
    ],
)
def test_a_watch_ends_at_once_with_exit_code_2_where_an_option_or_rule_is_wrong(
    arguments: list[str], sentence: str
) -> None:
    check_refusal(["watch", *arguments], sentence, exit_code=2)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "rules", "watch"])
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "cannot read the rules in"),
        ("[slow-nod]\nfor_s = 1", "there is no verdict 'slow-nod': did you mean 'slow-node'?"),
        ("[rules.r]\nabove = 1", "rules.r has above and no metric"),
    ],
)
def test_a_rule_file_that_is_wrong_ends_every_command_with_exit_code_2(
    command: str, text: str | None, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "rules.toml"
    if text is not None:
        path.write_text(text)
    check_refusal([command, "--rules", str(path)], sentence, exit_code=2)


def test_an_unknown_format_is_refused_with_those_that_are_known() -> None:
    result = CliRunner().invoke(app, ["show", "inventory", "--format", "xml"])
    assert result.exit_code == 2
    assert "parquet" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("words", [["watch"], ["run", "--continuous"]])
@pytest.mark.parametrize("form", ["csv", "html"])
def test_a_command_that_goes_on_prints_text_or_json(words: list[str], form: str) -> None:
    result = CliRunner().invoke(app, [*words, "--format", form])
    assert result.exit_code == 2
    assert "text" in result.stderr


def test_an_error_that_quotes_a_stranger_is_one_line_of_plain_characters() -> None:
    result = CliRunner().invoke(app, ["show", "inventory", "--since", "a\x1b[2J\nb\u202e"])
    assert result.exit_code == 2
    assert result.stderr.endswith("\n")
    assert result.stderr[:-1].isprintable()


@pytest.mark.slow
def test_a_missing_pyspark_is_one_sentence_on_how_to_get_it(tmp_path: Path) -> None:
    code = (
        "import sys\nsys.modules['pyspark'] = sys.modules['py4j'] = None\n"
        "from fleetgauge.cli.fleet.app import app\n"
        "app(['show', 'inventory', '--master', 'local[2]', '--source', sys.argv[1]])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], check=False, timeout=PATIENCE_S, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "fleetgauge[spark]" in done.stderr

"""The tree of commands: one style of help, examples that are taken, and the same options everywhere."""

import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from support.waiting import PATIENCE_S
from typer.main import get_command
from typer.testing import CliRunner

from fleetgauge.cli import app
from fleetgauge.terminal.help import examples, paragraphs
from fleetgauge.terminal.options import FORMAT_HELP

Words = tuple[str, ...]

VERBS = frozenset(
    {
        "Analyse",
        "Check",
        "Compact",
        "Delete",
        "Deliver",
        "Explain",
        "Give",
        "Keep",
        "List",
        "Make",
        "Plan",
        "Print",
        "Process",
        "Read",
        "Receive",
        "Remove",
        "Replay",
        "Run",
        "Sample",
        "Serve",
        "Show",
        "Write",
    }
)
STREAMS = frozenset({("fleet", "watch")})
"""Commands that print until they are stopped, as text or JSON."""
MEANINGS_OF_ONE_SHORT = {"-f": {"--format", "--file"}}
"""`subscriptions plan -f FILE` is as kubectl has it; its --format has no short form."""
METAVARS_OF_ONE_OPTION = {"--output": {"PATH", "FILE"}, "--since": {None, "AGE"}}
"""`fleet report` writes a file in any case; some times are ages alone."""
NOT_FOR_HELP = {
    "apsw",
    "asyncio",
    "fleetgauge.node.config",
    "google.protobuf",
    "kio",
    "numpy",
    "opentelemetry",
    "pyarrow",
    "pyspark",
    "rich.markdown",
    "starlette",
    "structlog",
    "uvicorn",
}


def tree(words: Words = (), command: Any = None) -> Iterator[tuple[Words, Any]]:
    """Every command and group with its words."""
    command = get_command(app) if command is None else command
    yield words, command
    for name in getattr(command, "commands", {}):
        yield from tree((*words, name), command.load(name) if hasattr(command, "load") else command.commands[name])


TREE = dict(tree())
ALL = [pytest.param(words, id=" ".join(words) or "fleetgauge") for words in TREE]
LEAVES = [pytest.param(words, id=" ".join(words)) for words, each in TREE.items() if not hasattr(each, "commands")]
RENAMED = [
    pytest.param(words, former, id=" ".join((*words, former)))
    for words, each in TREE.items()
    for former in getattr(each, "renamed", {})
]


def options() -> Iterator[tuple[Words, Any]]:
    """Every option that help shows, with the words of its command."""
    for words, command in TREE.items():
        for each in command.params:
            if each.param_type_name == "option" and not each.hidden:
                yield words, each


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("words", ALL)
def test_every_command_has_help(words: Words, flag: str) -> None:
    result = CliRunner().invoke(app, [*words, flag], prog_name="fleetgauge")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"Usage: {' '.join(('fleetgauge', *words))} ")


@pytest.mark.parametrize("words", ALL)
def test_help_begins_with_a_verb_and_a_sentence(words: Words) -> None:
    first = paragraphs(TREE[words])[0]
    assert first.split()[0] in VERBS
    assert first.endswith((".", ")."))


@pytest.mark.parametrize("words", LEAVES)
def test_every_command_has_up_to_three_examples_that_it_takes(words: Words) -> None:
    found = examples(TREE[words])
    assert 1 <= len(found) <= 3
    for example in found:
        name, *given = shlex.split(example.partition(" >")[0])
        assert (name, *given[: len(words)]) == ("fleetgauge", *words)
        TREE[words].make_context("fleetgauge", given[len(words) :])


@pytest.mark.parametrize("words", ALL)
def test_a_list_of_commands_has_the_first_sentence_of_their_help(words: Words) -> None:
    for name, each in getattr(TREE[words], "lazy", {}).items():
        assert each.summary == paragraphs(TREE[*words, name])[0]


def test_a_short_option_has_one_meaning() -> None:
    meanings: dict[str, set[str]] = defaultdict(set)
    for _, each in options():
        long = {name for name in each.opts if name.startswith("--")}
        for short in set(each.opts) - long:
            meanings[short] |= long
    assert {short: long for short, long in meanings.items() if len(long) > 1} == MEANINGS_OF_ONE_SHORT


def test_an_option_takes_the_same_value_in_every_command() -> None:
    metavars: dict[str, set[str | None]] = defaultdict(set)
    for words, each in options():
        if words not in STREAMS or each.opts[0] != "--format":
            metavars[each.opts[0]].add(each.metavar)
    several = {name: found for name, found in metavars.items() if len(found) > 1}
    assert several == METAVARS_OF_ONE_OPTION


def test_every_answer_has_the_same_forms() -> None:
    forms = {words: each.metavar for words, each in options() if "--format" in each.opts}
    assert {words for words, metavar in forms.items() if metavar != FORMAT_HELP["metavar"]} == STREAMS
    with_output = {words for words, each in options() if "--output" in each.opts}
    assert with_output == (forms.keys() - STREAMS) | {("fleet", "report")}


@pytest.mark.slow
@pytest.mark.parametrize(("words", "former"), RENAMED)
def test_a_former_name_is_taken_names_the_new_one_and_is_in_no_help(words: Words, former: str) -> None:
    new = " ".join(TREE[words].renamed[former])
    result = CliRunner().invoke(app, [*words, former, "--help"], prog_name="fleetgauge")
    assert result.exit_code == 0
    begin = " ".join(("fleetgauge", *words))
    assert result.stderr == f"{begin} {former} is now: {begin} {new}\n"
    assert former not in TREE[words].commands


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["config", "-o", "node.id=x"], "node.id"),
        (["config", "-onode.id=x"], "node.id"),
        (["fleet", "show", "latency", "--source", ".", "--instance", "x"], "'x' is not a client instance id"),
        (["clients", "--instance", "x"], "is not a client instance id"),
        (["log", "tail", "--lines", "0"], "--limit"),
        (["credentials", "a", "-m", "none"], "none"),
        (["fleet", "maintain", "--keep", "long"], "'long' is not a time"),
        (["fleet", "run", "--source", "kafka://a:1/t", "--kafka-config", "nosuch"], "nosuch"),
    ],
)
def test_a_former_spelling_of_an_option_is_taken_and_is_in_no_help(words: list[str], sentence: str) -> None:
    result = CliRunner().invoke(app, words)
    assert result.exit_code != 0
    assert "No such option" not in result.output
    assert sentence in result.output + str(result.exception)
    former = [word[:2] if word.startswith("-o") else word for word in words if word.startswith("-")][-1]
    command = words[: 2 if words[0] in {"fleet", "log"} else 1]
    assert former not in CliRunner().invoke(app, [*command, "--help"]).stdout.split()


@pytest.mark.parametrize("form", ["table", "text"])
def test_the_former_name_of_text_is_taken(form: str) -> None:
    result = CliRunner().invoke(app, ["metrics", "--required", "--format", form])
    assert result.stdout.endswith("6 metrics\n")


@pytest.mark.slow
def test_help_imports_nothing_that_takes_long() -> None:
    script = f"""
import sys
from typer.main import get_command
from typer.testing import CliRunner
from fleetgauge.cli import app
for words in {list(TREE)!r}:
    CliRunner().invoke(app, [*words, "--help"])
    found = {NOT_FOR_HELP!r} & sys.modules.keys()
    assert not found, (words, found)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=PATIENCE_S)

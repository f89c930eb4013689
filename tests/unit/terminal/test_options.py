"""Options mean the same in every command, help is under -h everywhere, and older spellings are still taken."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from fleetgauge.cli import app as fleetgauge
from fleetgauge.cli.fleet.app import app as fleet

MEANINGS_OF_ONE_SPELLING = {"-n": {"--limit", "--lines"}, "-f": {"--format", "--file"}}
"""Both are numbers of rows. `subscriptions plan -f FILE` is as kubectl has it; its --format has no short form."""


def commands(app: typer.Typer) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group below an app, with its words."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), get_command(app))]
    while waiting:
        words, command = waiting.pop()
        yield words, command
        for name, each in getattr(command, "commands", {}).items():
            waiting.append(((*words, name), command.load(name) if hasattr(command, "load") else each))


OURS = [pytest.param(words, id=" ".join(words) or "fleetgauge") for words, _ in commands(fleetgauge)]
THEIRS = [pytest.param(("fleet", *words), id=" ".join(("fleet", *words))) for words, _ in commands(fleet)]


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("words", OURS + THEIRS)
def test_every_command_helps(words: tuple[str, ...], flag: str) -> None:
    result = CliRunner().invoke(fleetgauge, [*words, flag])
    assert result.exit_code == 0, result.output
    assert "Usage: fleetgauge" in result.stdout.replace("root", "fleetgauge")
    assert "--help" in result.stdout


def test_a_short_option_means_the_same_in_every_command() -> None:
    meanings: dict[str, set[str]] = defaultdict(set)
    for app in (fleetgauge, fleet):
        for _, command in commands(app):
            for parameter in command.params:
                long = [name for name in parameter.opts if name.startswith("--")]
                for short in set(parameter.opts) - set(long):
                    if short.startswith("-"):
                        meanings[short] |= set(long)
    assert {short: long for short, long in meanings.items() if len(long) > 1} == MEANINGS_OF_ONE_SPELLING


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["config", "-o", "node.id=x"], "node.id"),
        (["config", "-onode.id=x"], "node.id"),
        (["fleet", "latency", "--instance", "x"], "'x' is not a client instance id"),
        (["clients", "--instance", "x"], "is not a client instance id"),
        (["log", "tail", "--limit", "0"], "--lines"),
        (["credentials", "a", "-m", "none"], "none"),
    ],
)
def test_an_older_spelling_is_still_taken_and_in_no_help(words: list[str], sentence: str) -> None:
    result = CliRunner().invoke(fleetgauge, words)
    assert result.exit_code != 0
    assert "No such option" not in result.output
    assert sentence in result.output + str(result.exception)
    old = next(word[:2] if word.startswith("-o") else word for word in words if word.startswith("-"))
    command = words[: 2 if words[0] in {"fleet", "log"} else 1]
    helped = CliRunner().invoke(fleetgauge, [*command, "--help"]).stdout.split()
    assert old not in helped

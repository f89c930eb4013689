"""Every `fleetgauge` command line in the documents is one that the command line takes."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from fleetgauge.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]


def documented() -> Iterator[object]:
    for page in PAGES:
        for block in re.findall(r"^```\w*\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                found = re.match(r"(?:\S+=\S+ )?(fleetgauge [a-z].*)", line)
                if found:
                    yield pytest.param(found[1], id=f"{page.name}: {found[1][:70]}")


@pytest.mark.slow
@pytest.mark.parametrize("line", list(documented()))
def test_a_documented_command_is_taken(line: str) -> None:
    words = shlex.split(re.split(r" (?:>>?|<|\||&&?)(?: |$)", line)[0], comments=True)[1:]
    command = get_command(app)
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        assert words[0] in command.commands, "a former name"
        command, words = getattr(command, "load", command.commands.get)(words[0]), words[1:]
    command.make_context("fleetgauge", words)


def test_the_documents_have_commands() -> None:
    assert len(list(documented())) > 30

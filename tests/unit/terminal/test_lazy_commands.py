"""Commands are imported when they run; the list of commands says what their own help says."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import PATIENCE_S
from typer.main import get_command

from fleetgauge.cli import app

GROUP = get_command(app)
NOT_FOR_HELP = {
    *(
        "asyncio",
        "google.protobuf",
        "pydantic",
        "structlog",
        "fleetgauge.node.config",
        "fleetgauge.cli.node.serve",
        "telemetry",
        "wire",
    )
}


@pytest.mark.parametrize("name", list(GROUP.lazy))  # type: ignore[attr-defined]
def test_the_list_of_commands_says_what_the_help_of_the_command_says(name: str) -> None:
    command = GROUP.load(name)  # type: ignore[attr-defined]
    said = " ".join(command.help.split("\n\n")[0].split())
    assert GROUP.lazy[name].summary == said  # type: ignore[attr-defined]
    assert command.name == name


@pytest.mark.slow
def test_an_unknown_command_is_refused_with_the_nearest_one() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "fleetgauge", "statu"], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert ran.returncode == 2
    assert "Did you mean 'status'" in ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--help"], ["metrics"], ["fleet", "rules"]])
def test_a_full_disk_is_one_sentence(words: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "fleetgauge", *words]
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=PATIENCE_S)
    assert (ran.returncode, ran.stderr) == (1, "fleetgauge: cannot write: No space left on device\n")


@pytest.mark.slow
def test_without_a_stdout_a_command_runs_all_the_same() -> None:
    command = f"exec {sys.executable} -m fleetgauge --version >&-"
    ran = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False, timeout=PATIENCE_S)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_help_and_version_import_no_command_and_no_room(words: list[str]) -> None:
    script = f"""
import sys
from fleetgauge.cli import app
try:
    app({words!r})
finally:
    print("imported:", *({NOT_FOR_HELP!r} & sys.modules.keys()))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert ran.stdout.splitlines()[-1] == "imported:"

"""Options in dataclasses are options of the command, in their place."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import pytest
import typer
from typer.testing import CliRunner

from fleetgauge.terminal.option_groups import App, grouped


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    width: Annotated[int, typer.Option("--width", "-w", min=1, help="Of the box.")]
    height: Annotated[int, typer.Option(help="Of the box.")] = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tinted(Size):
    tint: str = "red"
    height: Annotated[int, typer.Option(help="Of the tinted box.")] = 3


def made(size: type[Size]) -> typer.Typer:
    def draw(*, first: bool = False, size: size, last: str = "z") -> None:  # type: ignore[valid-type]
        """Draw a box."""
        typer.echo(f"{first} {size} {last}")

    app = typer.Typer()
    app.command()(grouped(draw))
    return app


def test_the_fields_of_a_group_are_options_between_those_before_and_after_it() -> None:
    result = CliRunner().invoke(made(Size), ["--help"], env={"COLUMNS": "100"})
    found = [result.stdout.index(name) for name in ("Draw a box.", "--first", "--width", "--height", "--last")]
    assert found == sorted(found)


def test_a_command_gets_its_groups_as_values() -> None:
    result = CliRunner().invoke(made(Size), ["-w", "4", "--last", "y"])
    assert result.stdout == "False Size(width=4, height=2) y\n"


def test_a_group_may_declare_an_option_of_another_anew_and_keeps_its_place() -> None:
    result = CliRunner().invoke(made(Tinted), ["-w", "4", "--tint", "blue"])
    assert result.stdout == "False Tinted(width=4, height=3, tint='blue') z\n"
    assert "Of the tinted box." in CliRunner().invoke(made(Tinted), ["--help"], env={"COLUMNS": "100"}).stdout


def test_the_options_of_a_group_are_in_its_panel_of_the_help() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Framed(Size):
        panel: ClassVar = "Frame"

        thickness: Annotated[int, typer.Option(help="Of the frame.")] = 1

    def draw(*, first: bool = False, size: Framed) -> None:
        """Draw a box."""

    app = App(no_args_is_help=True)
    app.command()(draw)
    app.callback()(lambda: None)
    lines = CliRunner().invoke(app, ["draw", "--help"]).stdout.splitlines()
    panel = lines.index("Frame:")
    places = {name: next(at for at, line in enumerate(lines) if name in line) for name in ("--thickness", "--width")}
    assert places["--width"] < panel < places["--thickness"]


@pytest.mark.parametrize(
    ("words", "sentence"), [(["-w", "0"], "--width"), ([], "Missing option"), (["-w", "4", "--depth", "1"], "--depth")]
)
def test_a_wrong_option_of_a_group_is_a_wrong_option_of_the_command(words: list[str], sentence: str) -> None:
    result = CliRunner().invoke(made(Size), words)
    assert result.exit_code == 2
    assert sentence in result.stderr


def test_two_groups_with_an_option_of_one_name_are_refused() -> None:
    def draw(*, size: Size, width: int = 1) -> None: ...

    with pytest.raises(ValueError, match="width"):
        grouped(draw)

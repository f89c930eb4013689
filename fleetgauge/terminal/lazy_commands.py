"""A group of commands that are imported when they run. The list of commands in its help needs none of them."""

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand

from fleetgauge.terminal.option_groups import App
from fleetgauge.terminal.options import HELP, Group


class LazyCommand(NamedTuple):
    """Where a command is, and its line in the list of commands.

    Attributes:
        place: `module:name` of a function, or of a `typer.Typer` for a group.
        summary: the first paragraph of its help.
    """

    place: str
    summary: str

    def load(self, name: str) -> Any:
        """Imports the command and makes what Typer runs."""
        module, _, attribute = self.place.partition(":")
        loaded = getattr(importlib.import_module(module), attribute)
        app = App(rich_markup_mode="markdown", context_settings=HELP, pretty_exceptions_enable=False)
        if isinstance(loaded, typer.Typer):
            app.add_typer(loaded, name=name)
        else:
            app.command(name)(loaded)
        return typer.main.get_group(app).commands[name]


class LazyGroup(Group):
    """A group with `lazy` commands, listed before those that are registered with Typer."""

    lazy: ClassVar[Mapping[str, LazyCommand]] = {}

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        listed = {name: TyperCommand(name, short_help=each.summary) for name, each in self.lazy.items()}
        self.commands = {**listed, **self.commands}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the words name, imported."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else self.load(name), rest

    def load(self, name: str) -> Any:
        """A command by its name, imported.

        Raises:
            KeyError: there is no such command.
        """
        return self.lazy[name].load(name) if name in self.lazy else self.commands[name]

"""A group of commands that are imported when they run. The list of commands in its help needs none of them."""

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import typer

from fleetgauge.terminal.option_groups import App
from fleetgauge.terminal.options import Command, Group


class LazyCommand(NamedTuple):
    """Where a command is, and its line in the list of commands.

    Attributes:
        place: `module:name` of a function, or of a `typer.Typer` for a group.
        summary: the first paragraph of its help.
        panel: the panel of the list that it is in.
    """

    place: str
    summary: str
    panel: str | None = None

    def load(self, name: str, our_class: type[Command]) -> Any:
        """Imports the command and makes what Typer runs."""
        module, _, attribute = self.place.partition(":")
        loaded = getattr(importlib.import_module(module), attribute)
        app = App()
        if isinstance(loaded, typer.Typer):
            app.add_typer(loaded, name=name)
        else:
            app.command(name, cls=our_class)(loaded)
        return typer.main.get_group(app).commands[name]


class LazyGroup(Group):
    """A group with `lazy` commands, listed before those that are registered with Typer.

    Attributes:
        lazy: the commands by their names.
        renamed: former names, and the words that replace them.
        our_class: class of the commands.
    """

    lazy: ClassVar[Mapping[str, LazyCommand]] = {}
    renamed: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    our_class: ClassVar[type[Command]] = Command

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        listed = {
            name: Command(name, short_help=each.summary, rich_help_panel=each.panel) for name, each in self.lazy.items()
        }
        self.commands = {**listed, **self.commands}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the words name, imported. A former name is replaced, and stderr says by what."""
        if (words := self.renamed.get(args[0])) is not None:
            typer.echo(f"{ctx.command_path} {args[0]} is now: {ctx.command_path} {' '.join(words)}", err=True)
            args = [*words, *args[1:]]
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else self.load(name), rest

    def load(self, name: str) -> Any:
        """A command by its name, imported.

        Raises:
            KeyError: there is no such command.
        """
        return self.lazy[name].load(name, self.our_class) if name in self.lazy else self.commands[name]

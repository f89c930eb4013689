"""Groups of options: frozen dataclasses that several commands share. Typer has none (fastapi/typer#264)."""

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from typing import Any

import typer
from typer.core import TyperCommand
from typer.models import CommandFunctionType

from fleetgauge.terminal.options import Command


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command as Typer takes it: each parameter of a dataclass is replaced by that dataclass's fields, in its place.

    Raises:
        ValueError: two of them have a field of the same name.
    """
    parameters = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, Any] = {
        name: each.annotation for name, each in parameters.items() if is_dataclass(each.annotation)
    }
    fields = {name: inspect.signature(group, eval_str=True).parameters for name, group in groups.items()}

    @wraps(command)
    def run(**options: Any) -> None:
        values = {name: groups[name](**{key: options.pop(key) for key in keys}) for name, keys in fields.items()}
        command(**values, **options)

    flat = [each for name, one in parameters.items() for each in fields.get(name, {name: one}).values()]
    keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in flat]
    run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]  # what inspect looks for
    return run


class App(typer.Typer):
    """An app whose commands are ours, and may have groups of options."""

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = Command, **options: Any
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """A decorator that adds a command, and leaves the function as it is; see `typer.Typer.command`."""
        add = super().command(name, cls=cls, **options)

        def added(command: CommandFunctionType) -> CommandFunctionType:
            add(grouped(command))
            return command

        return added

"""Options that commands of several rooms share, and older spellings that are still taken."""

from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

HELP: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"]}
"""Context settings of every app."""

Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="NAME[,NAME]",
        help="Columns of the table, in this order. Without it a terminal shows those that fit its width.",
    ),
]

_OLD: Final = {
    "-o": "--override",
    "-m": "--mechanism",
    "--instance": "--instance-id",
    "--limit": "--lines",
}
"""Older spellings: taken by every command that has the option and no other of this name, and in no help."""


class _TakesOldSpellings:
    """Mixed into a command or group."""

    def make_parser(self, ctx: Any) -> Any:
        """The parser, which knows the older spellings as well."""
        parser = super().make_parser(ctx)  # type: ignore[misc]  # of the class that it is mixed into
        for old, new in _OLD.items():
            known = parser._long_opt if old.startswith("--") else parser._short_opt
            if new in parser._long_opt:
                known.setdefault(old, parser._long_opt[new])
        return parser


class Command(_TakesOldSpellings, TyperCommand):
    """A command of ours."""


class Group(_TakesOldSpellings, TyperGroup):
    """A group of commands with options of its own."""

"""Options that commands of several rooms share, and former spellings that are still taken."""

import sys
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

import typer
from typer.core import TyperCommand, TyperGroup

from fleetgauge.terminal.answer import Answer, Format, Output, print_answer
from fleetgauge.terminal.help import write_help

HELP: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "max_content_width": 120}
"""Context settings of every app."""

OUTPUT: Final = "Output"
"""Panel of the options that say how an answer is printed."""

_FORMER: Final = {
    "-o": "--override",
    "-m": "--mechanism",
    "--instance": "--instance-id",
    "--lines": "--limit",
    "--within": "--since",
    "--cluster": "--cluster-id",
    "--kafka-config": "--command-config",
    "--kafka-option": "--command-property",
    "--every": "--interval",
    "--keep": "--retention",
}
"""Former spellings: taken by every command that has the option and no other of this name, and in no help."""


def parse_format(text: str) -> Format:
    """A value of `--format`; `table` is a former name of `text`.

    Raises:
        typer.BadParameter: it is none.
    """
    try:
        return Format("text" if text == "table" else text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(Format)}") from error


FORMAT_HELP: Final[dict[str, Any]] = {
    "parser": parse_format,
    "metavar": "|".join(Format),
    "autocompletion": lambda: list(Format),
    "help": "Form of the answer. JSON, CSV and Parquet have every row and column.",
}
"""Arguments of every `--format`."""


def parse_stream_format(text: str) -> Format:
    """A value of `--format` of a command that goes on.

    Raises:
        typer.BadParameter: it is none.
    """
    if (form := parse_format(text)) not in STREAM_FORMATS:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(STREAM_FORMATS)}")
    return form


STREAM_FORMATS: Final = (Format.TEXT, Format.JSON)
StreamFormat = Annotated[
    Format,
    typer.Option(
        "--format",
        "-f",
        parser=parse_stream_format,
        metavar="|".join(STREAM_FORMATS),
        help="Form of what is printed as it comes; JSON is one object per line.",
        rich_help_panel=OUTPUT,
    ),
]
"""`--format` of a command that goes on until it is stopped."""

Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="NAME[,NAME]",
        help="Columns of text and HTML, in this order. Without it a terminal shows those that fit its width.",
        rich_help_panel=OUTPUT,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions:
    """Options for printing an answer."""

    panel: ClassVar = OUTPUT

    form: Annotated[Format, typer.Option("--format", "-f", **FORMAT_HELP)] = Format.TEXT
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="Write to a new directory (JSON, CSV, Parquet) or to a file (HTML) instead of stdout.",
        ),
    ] = None

    def to(self) -> Output:
        """Where the answer is written, and in which form.

        Raises:
            OutputError: the options do not go together.
        """
        to = Output(form=self.form, output=self.output)
        to.check()
        return to

    def print(self, answer: Answer) -> None:
        """Prints the answer.

        Raises:
            OutputError: it cannot be written as asked.
        """
        print_answer(answer, self.to(), sys.stdout)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnOptions(AnswerOptions):
    """Options for printing a table."""

    columns: Columns = None

    def to(self) -> Output:
        """See `AnswerOptions`."""
        to = Output(form=self.form, output=self.output, columns=self.columns)
        to.check()
        return to


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions(ColumnOptions):
    """Options for printing a table that may have many rows."""

    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Rows of text and HTML, at most.")] = 50

    def to(self) -> Output:
        """See `AnswerOptions`."""
        to = Output(form=self.form, output=self.output, columns=self.columns, limit=self.limit)
        to.check()
        return to


class _Ours:
    """Mixed into a command or group: takes former spellings, and has the help of `terminal.help`."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Writes the help."""
        write_help(self, ctx, formatter)

    def make_parser(self, ctx: Any) -> Any:
        """The parser, which knows the former spellings as well."""
        parser = super().make_parser(ctx)  # type: ignore[misc]  # of the class that it is mixed into
        for former, spelling in _FORMER.items():
            known = parser._long_opt if former.startswith("--") else parser._short_opt
            if spelling in parser._long_opt:
                known.setdefault(former, parser._long_opt[spelling])
        return parser


class Command(_Ours, TyperCommand):
    """A command of ours."""


class Group(_Ours, TyperGroup):
    """A group of commands."""

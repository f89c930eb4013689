"""The help of a command as plain text. Typer's own loads Rich's Markdown, which takes longer than most commands."""

import inspect
from typing import Any, Final

_EXAMPLES: Final = "\n\nExamples:\n"
"""Before the last part of a command's text: an example per line."""


def write_help(command: Any, ctx: Any, formatter: Any) -> None:
    """Writes the usage, the text, the options and commands by their panels, and the examples."""
    command.format_usage(ctx, formatter)
    for paragraph in paragraphs(command):
        formatter.write_paragraph()
        formatter.write_text(paragraph)
    for title, rows in _panels(command, ctx).items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)
    if lines := examples(command):
        with formatter.section("Examples"):
            for example in lines:
                formatter.write(f"  {example}\n")  # on one line, to be copied


def _panels(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """The rows of each panel: arguments and options of the command first."""
    panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        if row := parameter.get_help_record(ctx):
            default = "Arguments" if parameter.param_type_name == "argument" else "Options"
            panels.setdefault(parameter.rich_help_panel or default, []).append(row)
    for name, each in getattr(command, "commands", {}).items():
        if not each.hidden:
            row = name, each.short_help or paragraphs(each)[0]
            panels.setdefault(each.rich_help_panel or "Commands", []).append(row)
    return panels


def paragraphs(command: Any) -> list[str]:
    """The paragraphs of a command's text, without its examples."""
    text = inspect.cleandoc(command.help or "").partition(_EXAMPLES)[0]
    return [" ".join(each.split()) for each in text.split("\n\n") if each]


def examples(command: Any) -> list[str]:
    """The examples in a command's text."""
    text = inspect.cleandoc(command.help or "").partition(_EXAMPLES)[2]
    return [line.strip() for line in text.splitlines() if line.strip()]

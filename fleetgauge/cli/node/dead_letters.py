"""`fleetgauge log dead`: lists, shows, replays and drops dead letters, the pushes that a destination rejected."""

from typing import Annotated

import typer

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.cli.options import DataOptions
from fleetgauge.terminal.option_groups import App, grouped
from fleetgauge.terminal.options import AnswerOptions, TableOptions

app = App(invoke_without_command=True)

_OfExporter = Annotated[str, typer.Option("--exporter", "-e", help="Only letters of this exporter.")]
_OfOneExporter = Annotated[str, typer.Option("--exporter", "-e", help="The exporter of the letters.")]
_OfReason = Annotated[str, typer.Option("--reason", "-r", help="Only letters with this reason.")]
_Ids = Annotated[
    list[int] | None, typer.Option("--id", "-i", help="Only the letter with this number; may be repeated.")
]


@app.callback()
@grouped
def show_list(
    context: typer.Context,
    data: DataOptions,
    answer: TableOptions,
    exporter: _OfExporter = "",
    reason: _OfReason = "",
) -> None:
    """List the pushes that a destination rejected, the newest first; or, with a command, show, replay or drop them.

    Each is kept until it is replayed and delivered, dropped, or older than dead.letter.retention.ms; beyond
    dead.letter.retention.bytes the oldest is deleted. --limit counts in every form.

    Examples:
        fleetgauge log dead --log-dirs ./fleetgauge-data --exporter collector
        fleetgauge log dead show 17 --log-dirs ./fleetgauge-data
    """
    if context.invoked_subcommand is not None:
        if any(_is_given(context, name) for name in context.params):
            raise FleetgaugeError(
                f"options go behind the command: fleetgauge log dead {context.invoked_subcommand} ..."
            )
        return
    from fleetgauge.cli.node.dead_letter_answers import print_list  # protobuf, which no help needs

    print_list(data, exporter, reason, answer)


@app.command()
def show(
    *,
    number: Annotated[int, typer.Argument(help="The letter's number, from the list.")],
    data: DataOptions,
    answer: AnswerOptions,
) -> None:
    """Show one letter: its sender, the destination's error, and the metrics.

    Examples:
        fleetgauge log dead show 17 --log-dirs ./fleetgauge-data
    """
    from fleetgauge.cli.node.dead_letter_answers import letter_answer

    answer.print(letter_answer(data, number))


@app.command()
def replay(
    *,
    exporter: _OfOneExporter,
    ids: _Ids = None,
    wait: Annotated[float, typer.Option("--wait", min=0, help="Time to wait for the results [s].")] = 30.0,
    data: DataOptions,
) -> None:
    """Deliver letters again, through the running exporter; each is deleted once its push is delivered.

    Without --id, all letters of the exporter. Letters that are rejected again are kept. If no node runs, they are
    delivered once one does. Exits with 1 unless all were delivered within --wait.

    Examples:
        fleetgauge log dead replay --exporter collector --log-dirs ./fleetgauge-data
    """
    from fleetgauge.cli.node.dead_letter_answers import replay_letters

    replay_letters(data, exporter, ids, wait)


@app.command()
def drop(
    *,
    exporter: _OfOneExporter,
    ids: _Ids = None,
    reason: _OfReason = "",
    everything: Annotated[bool, typer.Option("--all", help="All letters of the exporter.")] = False,
    data: DataOptions,
) -> None:
    """Delete letters: those of --id or --reason, or --all.

    Examples:
        fleetgauge log dead drop --exporter collector --reason unreadable --log-dirs ./fleetgauge-data
    """
    if not (ids or reason or everything):
        raise FleetgaugeError("name what to drop: --id, --reason, or --all letters of the exporter")
    from fleetgauge.cli.node.dead_letter_answers import drop_letters

    drop_letters(data, exporter, reason, ids)


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"

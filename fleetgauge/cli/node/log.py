"""`fleetgauge log`: reads the push log of a node, or the topic of an export, whether the process runs or not."""

from contextlib import suppress
from typing import Annotated, ClassVar

import typer

from fleetgauge.cli.options import DataOptions
from fleetgauge.terminal.lazy_commands import LazyCommand, LazyGroup
from fleetgauge.terminal.option_groups import App
from fleetgauge.terminal.options import AnswerOptions


class _Commands(LazyGroup):
    """Dead letters are commands of their own."""

    lazy: ClassVar = {
        "dead": LazyCommand(
            "fleetgauge.cli.node.dead_letters:app",
            "List the pushes that a destination rejected, the newest first; or, with a command, show, replay or drop "
            "them.",
        )
    }


app = App(cls=_Commands, help="Read the push log, whether a node runs or not.", no_args_is_help=True)


@app.command("tail")
def show_tail(
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Number of pushes.")] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-F", help="Continue with new pushes until interrupted.")] = False,
    data: DataOptions,
    answer: AnswerOptions,
) -> None:
    """Show the last pushes of the log, oldest first: time, client, size.

    With push.log.type=kafka: of all partitions of the topic, read with push.log.kafka.* and without a consumer group.

    Examples:
        fleetgauge log tail --log-dirs ./fleetgauge-data --follow
        fleetgauge log tail --config export.toml --limit 100 --format json
    """
    from fleetgauge.cli.node.log_reading import tail_answer  # SQLite and the record's decoders, which no help needs

    with suppress(KeyboardInterrupt):
        answer.print(tail_answer(data, limit, follow=follow))


@app.command()
def stats(*, data: DataOptions, answer: AnswerOptions) -> None:
    """Show the contents of the log and the lag of each exporter; several logs are summed up.

    Examples:
        fleetgauge log stats --log-dirs ./fleetgauge-data
    """
    from fleetgauge.cli.node.log_reading import stats_answer

    answer.print(stats_answer(data))

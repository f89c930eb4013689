"""`fleetgauge subscriptions`: client-metrics subscriptions of brokers and nodes, planned against the live clients."""

from pathlib import Path
from typing import Annotated, ClassVar

import typer

from fleetgauge.cli.cluster.options import ClusterAnswer, ClusterOptions, Target, Yes
from fleetgauge.terminal.lazy_commands import LazyGroup
from fleetgauge.terminal.option_groups import App


class _Commands(LazyGroup):
    """Takes the former name of a command."""

    renamed: ClassVar = {"show": ("list",)}


app = App(
    cls=_Commands,
    help="Plan and apply the subscriptions of brokers or nodes, to a sample first, or for a time.",
    no_args_is_help=True,
)

File = Annotated[
    Path, typer.Option("--file", "-f", help="TOML file with the tables [client-metrics.NAME], as a node's has them.")
]
OptionalFile = Annotated[
    Path | None, typer.Option("--file", "-f", help="TOML file with the table [client-metrics.NAME].")
]
Prune = Annotated[bool, typer.Option("--prune", help="Delete subscriptions that are not in the file.")]
ShowNames = Annotated[bool, typer.Option("--show", help="Name the clients.")]


@app.command("list")
def list_them(
    *,
    name: Annotated[str | None, typer.Argument(help="Only this subscription, in detail.")] = None,
    names: ShowNames = False,
    target: Target,
    answer: ClusterAnswer,
) -> None:
    """List the subscriptions: metrics, interval, match, live clients, and when they are taken back.

    With a name: that subscription alone, and with --show the clients that it matches.

    Examples:
        fleetgauge subscriptions list --bootstrap-server broker-1:9092
        fleetgauge subscriptions list orders --bootstrap-server broker-1:9092 --show
    """
    from fleetgauge.cli.cluster import subscription_session as session

    session.list_them(name, target, answer, names=names)


@app.command()
def plan(*, file: File, prune: Prune = False, names: ShowNames = False, target: Target, answer: ClusterAnswer) -> None:
    """Show what a file would change, and what that does to the live clients. Changes nothing.

    Exits with 0 if nothing would change, and with 4 if something would.

    Examples:
        fleetgauge subscriptions plan -f subscriptions.toml --bootstrap-server broker-1:9092 --show
    """
    from fleetgauge.cli.cluster import subscription_session as session

    session.plan(file, target, answer, prune=prune, names=names)


@app.command()
def apply(*, file: File, prune: Prune = False, names: ShowNames = False, yes: Yes = False, target: Target) -> None:
    """Make the cluster's subscriptions those of a file; others are left alone without --prune. Shows the plan first.

    Examples:
        fleetgauge subscriptions apply -f subscriptions.toml --bootstrap-server broker-1:9092
    """
    from fleetgauge.cli.cluster import subscription_session as session

    session.apply(file, target, prune=prune, names=names, yes=yes)


@app.command()
def canary(
    *,
    words: Annotated[
        list[str], typer.Argument(metavar="[SHARE] NAME", help="5% NAME makes a canary; NAME alone looks at it.")
    ],
    file: OptionalFile = None,
    intervals: Annotated[
        int, typer.Option(min=0, max=1_000, help="Compare after so many push intervals; 0: do not wait.")
    ] = 3,
    since: Annotated[
        str, typer.Option(metavar="AGE", help="With --tables: latency and throttling of windows since then: 30m, 2h.")
    ] = "1h",
    promote: Annotated[bool, typer.Option("--promote", help="Give it to all clients, and end the canary.")] = False,
    abort: Annotated[bool, typer.Option("--abort", help="Take it back from the sample.")] = False,
    names: ShowNames = False,
    yes: Yes = False,
    target: Target,
    answer: ClusterAnswer,
) -> None:
    """Give a subscription of a file to a stable sample of clients first, and compare them with the others.

    The sample is chosen by the first characters of the instance id, and so stays the same; the true share is shown.

    Examples:
        fleetgauge subscriptions canary 5% orders -f subscriptions.toml --bootstrap-server broker-1:9092
        fleetgauge subscriptions canary orders --promote --bootstrap-server broker-1:9092
    """
    from fleetgauge.cli.cluster import subscription_session as session

    session.canary(words, file, intervals, since, target, answer, promote=promote, abort=abort, names=names, yes=yes)


@app.command()
def expire(
    *,
    after: Annotated[str | None, typer.Argument(metavar="AFTER", help="For how long: 30m, 2h, 7d.")] = None,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The subscription.")] = None,
    file: OptionalFile = None,
    due: Annotated[bool, typer.Option("--due", help="Take back what is due, and list it.")] = False,
    interval: Annotated[
        int | None, typer.Option(min=1, max=86_400, help="With --due: repeat at this interval [s].")
    ] = None,
    cancel: Annotated[str | None, typer.Option(metavar="NAME", help="Keep this subscription after all.")] = None,
    yes: Yes = False,
    options: ClusterOptions,
) -> None:
    """Remove a subscription automatically after a time, even if this machine is down then. Asks first.

    The deadline is kept in the cluster. The fleetgauge export of its topic takes back what is due, as does a serve with
    subscriptions.bootstrap.servers, or `fleetgauge subscriptions expire --due` in a scheduler.

    Examples:
        fleetgauge subscriptions expire 30m lagging -f lagging.toml --bootstrap-server broker-1:9092
        fleetgauge subscriptions expire --due --bootstrap-server broker-1:9092
    """
    from fleetgauge.cli.cluster import subscription_session as session

    session.expire(after, name, file, interval, cancel, options, due=due, yes=yes)

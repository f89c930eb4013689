"""`fleetgauge subscriptions`: client-metrics subscriptions of brokers and nodes, planned against the live clients."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from fleetgauge.base.durations import parse_duration_us
from fleetgauge.cli.cluster import subscriptions_text as text
from fleetgauge.cli.cluster.options import ClusterOptions, Form, FormOption
from fleetgauge.cli.cluster.plan import PlanCommand, Yes, carry_out, end_plan
from fleetgauge.cli.cluster.resource_file import read_file
from fleetgauge.cli.options import DataOptions
from fleetgauge.cli.units import duration
from fleetgauge.cluster.errors import ResourceError
from fleetgauge.cluster.plan import Change
from fleetgauge.cluster.subscriptions import canary as canaries
from fleetgauge.cluster.subscriptions import deadlines
from fleetgauge.cluster.subscriptions.clients import Client, clients_of
from fleetgauge.cluster.subscriptions.cluster import Cluster
from fleetgauge.cluster.subscriptions.planning import Plan, plan_changes
from fleetgauge.cluster.subscriptions.resources import SUBSCRIPTIONS, Resource, named
from fleetgauge.telemetry.subscriptions.resources import INTERVAL_MS_DEFAULT
from fleetgauge.terminal.option_groups import App
from fleetgauge.terminal.table import wide_console

if TYPE_CHECKING:
    from fleetgauge.cluster.subscriptions.tables import FleetTables

app = App(
    help="Plan and apply the subscriptions of brokers or nodes, to a sample first, or for a time.",
    no_args_is_help=True,
)

_OF_CLIENTS: Final = "Live clients"

File = Annotated[
    Path, typer.Option("--file", "-f", help="TOML file with the tables [client-metrics.NAME], as a node's has them.")
]
OptionalFile = Annotated[
    Path | None, typer.Option("--file", "-f", help="TOML file with the table [client-metrics.NAME].")
]
Prune = Annotated[bool, typer.Option("--prune", help="Delete subscriptions that are not in the file.")]
ShowNames = Annotated[bool, typer.Option("--show", help="Name the clients.")]


# Without slots, which two bases cannot both have. In help the options of the last base come first.
@dataclass(frozen=True, kw_only=True)
class Target(DataOptions, ClusterOptions):
    """A cluster, and the source of its live clients."""

    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            help="HTTP listener of the node or export that knows the clients; by default the one of --log-dirs is "
            "asked.",
            rich_help_panel=_OF_CLIENTS,
        ),
    ] = None
    tables: Annotated[
        str | None,
        typer.Option(
            "--tables",
            metavar="ROOT",
            help="Standing tables (fleet run): open verdicts; also the clients, if no other source is named.",
            rich_help_panel=_OF_CLIENTS,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """A cluster, and what is known of its clients.

    Attributes:
        cluster: the open connection.
        clients: reads the live clients; empty where no source is known.
        tables: standing tables, if given.
        problem: why no clients are known; empty if they are.
    """

    cluster: Cluster
    clients: Callable[[], Sequence[Client]]
    tables: "FleetTables | None"
    problem: str

    def plan(self, changes: Sequence[Change[str, Resource]]) -> Plan:
        """Adds the effect of changes on the live clients."""
        findings = self.tables.findings() if self.tables is not None else ()
        return plan_changes(changes, self.clients(), findings=findings)


@app.command("list")
def list_them(target: Target, form: FormOption = "table") -> None:
    """List the subscriptions: metrics, interval, match, live clients, and when they are taken back.

    `fleetgauge subscriptions list --bootstrap-server broker-1:9092`
    """
    with _session(target) as session:
        resources = session.cluster.list()
        clients = session.clients()
        text.print_list(wide_console(), resources, clients, session.problem, form)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="The subscription.")],
    target: Target,
    names: ShowNames = False,
    form: FormOption = "table",
) -> None:
    """Show one subscription: its metrics, interval and match, and how many live clients it matches.

    `fleetgauge subscriptions show orders --bootstrap-server broker-1:9092 --show`
    """
    with _session(target) as session:
        resources = session.cluster.list()
        clients = session.clients()
        text.print_one(wide_console(), named(resources, name), resources, clients, session.problem, form, names=names)


@app.command(cls=PlanCommand)
def plan(
    file: File,
    target: Target,
    prune: Prune = False,
    names: ShowNames = False,
    form: FormOption = "table",
) -> None:
    """Say what a file would change, and what that does to the live clients. Changes nothing.

    Exits with 0 if nothing would change, with 2 if something would, with 1 after an error.

    `fleetgauge subscriptions plan -f subscriptions.toml --bootstrap-server broker-1:9092 --show`
    """
    wanted = read_file(file, SUBSCRIPTIONS)
    with _session(target) as session:
        planned = session.plan(SUBSCRIPTIONS.plan(session.cluster.list(), wanted, prune=prune))
        text.print_plan(wide_console(), planned, session.problem, form, names=names)
    end_plan(planned.changes)


@app.command()
def apply(
    file: File,
    target: Target,
    prune: Prune = False,
    names: ShowNames = False,
    yes: Yes = False,
) -> None:
    """Make the cluster's subscriptions those of a file; others are left alone without --prune. Shows the plan first.

    `fleetgauge subscriptions apply -f subscriptions.toml --bootstrap-server broker-1:9092`
    """
    wanted = read_file(file, SUBSCRIPTIONS)
    with _session(target) as session:
        changes = SUBSCRIPTIONS.plan(session.cluster.list(), wanted, prune=prune)
        _carry_out(session, session.plan(changes), yes=yes, names=names)


@app.command()
def canary(
    words: Annotated[
        list[str], typer.Argument(metavar="[SHARE] NAME", help="5% NAME makes a canary; NAME alone looks at it.")
    ],
    target: Target,
    file: OptionalFile = None,
    intervals: Annotated[
        int, typer.Option(min=0, max=1_000, help="Compare after so many push intervals; 0: do not wait.")
    ] = 3,
    within: Annotated[
        str, typer.Option(metavar="AGE", help="With --tables: latency and throttling of windows since then: 30m, 2h.")
    ] = "1h",
    promote: Annotated[bool, typer.Option("--promote", help="Give it to all clients, and end the canary.")] = False,
    abort: Annotated[bool, typer.Option("--abort", help="Take it back from the sample.")] = False,
    names: ShowNames = False,
    yes: Yes = False,
    form: FormOption = "table",
) -> None:
    """Give a subscription of a file to a stable sample of clients first, and say how they fare.

    The sample is chosen by the first characters of the instance id, and so stays the same; the true share is shown.

    `fleetgauge subscriptions canary 5% orders -f subscriptions.toml --bootstrap-server broker-1:9092`

    `fleetgauge subscriptions canary orders --promote --bootstrap-server broker-1:9092`
    """
    share, name = _share_and_name(words)
    if sum((share is not None, promote, abort)) > 1:
        raise ResourceError("a share, --promote and --abort exclude each other")
    with _session(target) as session:
        current = session.cluster.list()
        if promote or abort:
            changes = canaries.promotion(current, name) if promote else canaries.abortion(current, name)
            _carry_out(session, session.plan(changes), yes=yes, names=names)
            return
        if share is not None:
            if file is None:
                raise ResourceError("canary SHARE NAME needs the file with the subscription: -f FILE")
            wanted = named(read_file(file, SUBSCRIPTIONS), name)
            resource, chosen = canaries.canary_of(wanted, share)
            if form == "table":
                text.print_sample(wide_console(), chosen, share, canaries.not_shown(current, wanted))
            planned = session.plan(SUBSCRIPTIONS.changes(current, {resource.name: resource}))
            _carry_out(session, planned, yes=yes, names=names, quiet=form == "json")
            settling_ms = max((each.interval_ms or INTERVAL_MS_DEFAULT for each in planned.touched), default=0)
        else:
            resource, settling_ms = canaries.found_canary(current, name), 0
        _compare(session, resource, settling_ms, intervals, _age(within), form)


@app.command()
def expire(
    options: ClusterOptions,
    after: Annotated[str | None, typer.Argument(metavar="AFTER", help="For how long: 30m, 2h, 7d.")] = None,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The subscription.")] = None,
    file: OptionalFile = None,
    due: Annotated[bool, typer.Option("--due", help="Take back what is due, and list it.")] = False,
    every: Annotated[
        int | None, typer.Option(min=1, max=86_400, help="With --due: go on, at this interval [s].")
    ] = None,
    cancel: Annotated[str | None, typer.Option(metavar="NAME", help="Keep this subscription after all.")] = None,
    yes: Yes = False,
) -> None:
    """Take a subscription back after a time, by itself, also if this machine is away by then. Asks first.

    The deadline is kept in the cluster. The fleetgauge export of its topic takes back what is due, as does a serve with
    subscriptions.bootstrap.servers, or `fleetgauge subscriptions expire --due` in a scheduler.

    `fleetgauge subscriptions expire 30m lagging -f lagging.toml --bootstrap-server broker-1:9092`

    `fleetgauge subscriptions expire --due --bootstrap-server broker-1:9092`
    """
    if sum((name is not None, due, cancel is not None)) != 1 or (every is not None and not due):
        raise ResourceError("give AFTER and NAME, or --due, or --cancel NAME")
    with Cluster(options.settings()) as cluster:
        if due:
            _take_back(cluster, every)
        elif cancel is not None:
            changes = deadlines.cancelling(cluster.list(), cancel)
            if not changes:
                raise ResourceError(f"{cancel} has no deadline")
            cluster.alter(changes)
            wide_console().print(f"{text.printable(cancel)} stays.")
        else:
            assert name is not None
            _set_deadline(cluster, after or "", name, file, yes=yes)


def _set_deadline(cluster: Cluster, after: str, name: str, file: Path | None, *, yes: bool) -> None:
    length = _age(after)
    current = cluster.list()
    subscription = named(current if file is None else read_file(file, SUBSCRIPTIONS), name)
    if not yes:
        made = "" if file is None else f"made as {file} has it, and "
        typer.confirm(f"{text.printable(name)} is {made}taken back after {after}. Apply?", abort=True, err=True)
    wanted = deadlines.deadline(name, datetime.now(UTC) + length)
    cluster.alter(deadlines.setting(current, wanted, None if file is None else subscription))
    wide_console().print(
        f"{text.printable(name)} is taken back at {wanted.at:%Y-%m-%d %H:%M:%S} UTC, by the fleetgauge export of its "
        "topic, a serve with subscriptions.bootstrap.servers, or fleetgauge subscriptions expire --due"
    )


def _age(text: str) -> timedelta:
    length_us = parse_duration_us(text)
    if not length_us:
        raise ResourceError(f"{text!r} is no time: give one up to 30d, such as 30m or 2h")
    return timedelta(microseconds=length_us)


def _take_back(cluster: Cluster, every_s: int | None) -> None:
    while True:
        for each in deadlines.take_back(cluster, datetime.now(UTC)):
            wide_console().print(f"took back {text.printable(each.name)}, due since {each.at:%Y-%m-%d %H:%M:%S} UTC")
        if every_s is None:
            return
        time.sleep(every_s)


def _share_and_name(words: list[str]) -> tuple[float | None, str]:
    if len(words) == 1 and not words[0].endswith("%"):
        return None, words[0]
    if len(words) == 2:
        share, name = sorted(words, key=lambda word: not word.endswith("%"))
        return canaries.parse_share(share), name
    raise ResourceError("canary takes a share and the name of a subscription (5% orders), or the name alone")


def _carry_out(session: _Session, planned: Plan, *, yes: bool, names: bool, quiet: bool = False) -> None:
    """Shows a plan, asks, and makes its changes.

    Raises:
        typer.Abort: the answer is no.
    """
    if not quiet:
        text.print_plan(wide_console(), planned, session.problem, "table", names=names)
    carry_out(SUBSCRIPTIONS, session.cluster, planned.changes, yes=yes, quiet=quiet)


def _compare(
    session: _Session, resource: Resource, settling_ms: int, intervals: int, within: timedelta, form: Form
) -> None:
    """Waits until the sample knows of its canary and for some push intervals more, and compares it with the others.

    A client learns of a new subscription by its next push, at the end of its present interval.
    """
    if session.problem or not intervals:
        if form == "table":
            wide_console().print(
                session.problem or f"Look again: fleetgauge subscriptions canary {text.base(resource)}"
            )
        return
    wait_s = intervals * resource.interval_ms / 1000
    whole = duration(settling_ms / 1000 + wait_s)
    Console(stderr=True).print(f"comparing in {whole}; Ctrl-C leaves the canary as it is", highlight=False)
    time.sleep(settling_ms / 1000)
    since = datetime.now(UTC)
    earlier = session.clients()
    time.sleep(wait_s)
    later = session.clients()
    now = datetime.now(UTC)
    minutes = (now - since).total_seconds() / 60
    fares = list(canaries.compared(resource, earlier, later, minutes))
    if session.tables is not None:
        mine, others = canaries.members(resource, later)
        measured = session.tables.measured
        fares = [measured(one, ids, now - within) for one, ids in zip(fares, (set(mine), set(others)), strict=True)]
    text.print_fares(wide_console(), resource, fares[0], fares[1], minutes, form)


@contextmanager
def _session(target: Target) -> Iterator[_Session]:
    """Opens the cluster, and finds the source of the live clients, by a command's options."""
    from fleetgauge.cluster.subscriptions.tables import FleetTables

    tables = None if target.tables is None else FleetTables(target.tables)
    read, problem = _source(target, tables)
    with Cluster(target.settings()) as cluster:
        yield _Session(cluster=cluster, clients=read, tables=tables, problem=problem)


def _source(target: Target, tables: "FleetTables | None") -> tuple[Callable[[], Sequence[Client]], str]:
    """What reads the live clients, and why none are known, if so.

    Raises:
        NotRunningError: the process that the options name does not answer.
    """
    from fleetgauge.base.errors import ConfigError
    from fleetgauge.cli.cluster.clients import client_source
    from fleetgauge.node.status.node_socket import NotRunningError

    url = target.url
    is_named = any(each is not None for each in (url, target.config, target.override, target.log_dirs))
    if tables is not None and not is_named:
        return tables.clients, ""
    try:
        client_source(target, url)  # answers, or raises
    except (NotRunningError, ConfigError) as error:
        if is_named:
            raise
        return tuple, (
            f"No live clients are known, so none are counted; --url, --log-dirs or --tables names a source ({error})"
        )
    return lambda: clients_of(client_source(target, url).rows({})), ""

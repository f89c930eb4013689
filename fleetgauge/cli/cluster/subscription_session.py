"""The work of `fleetgauge subscriptions`: a cluster, its live clients, and changes that are planned against them."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from fleetgauge.base.durations import parse_duration_us
from fleetgauge.cli.cluster import subscriptions_text as text
from fleetgauge.cli.cluster.options import EXIT_CHANGE, ClusterAnswer, ClusterOptions, Target
from fleetgauge.cli.cluster.plan import carry_out
from fleetgauge.cli.cluster.resource_file import read_file
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
from fleetgauge.terminal.answer import Format
from fleetgauge.terminal.table import wide_console

if TYPE_CHECKING:
    from fleetgauge.cluster.subscriptions.tables import FleetTables


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


def list_them(name: str | None, target: Target, answer: ClusterAnswer, *, names: bool) -> None:
    """Prints all subscriptions, or one in detail.

    Raises:
        ResourceError: the options do not go together, or the cluster refuses a request.
    """
    if names and name is None:
        raise ResourceError("--show names the clients of one subscription: give its name")
    with _session(target) as session:
        resources, clients, problem = session.cluster.list(), session.clients(), session.problem
        if name is None:
            answer.print(text.list_answer(resources, clients, problem))
        else:
            answer.print(text.one_answer(named(resources, name), resources, clients, problem, names=names))


def plan(file: Path, target: Target, answer: ClusterAnswer, *, prune: bool, names: bool) -> None:
    """Prints the plan of a file.

    Raises:
        ResourceError: the options do not go together, or the cluster refuses a request.
    """
    wanted = read_file(file, SUBSCRIPTIONS)
    with _session(target) as session:
        planned = session.plan(SUBSCRIPTIONS.plan(session.cluster.list(), wanted, prune=prune))
        answer.print(text.plan_answer(planned, session.problem, names=names))
    if planned.has_changes:
        raise typer.Exit(EXIT_CHANGE)


def apply(file: Path, target: Target, *, prune: bool, names: bool, yes: bool) -> None:
    """Shows the plan of a file, asks, and makes its changes.

    Raises:
        ResourceError: the options do not go together, or the cluster refuses a request.
    """
    wanted = read_file(file, SUBSCRIPTIONS)
    with _session(target) as session:
        changes = SUBSCRIPTIONS.plan(session.cluster.list(), wanted, prune=prune)
        _carry_out(session, session.plan(changes), yes=yes, names=names)


def canary(
    words: list[str],
    file: Path | None,
    intervals: int,
    since: str,
    target: Target,
    answer: ClusterAnswer,
    *,
    promote: bool,
    abort: bool,
    names: bool,
    yes: bool,
) -> None:
    """Makes, promotes, aborts or compares a canary.

    Raises:
        ResourceError: the options do not go together, or the cluster refuses a request.
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
            if answer.form is Format.TEXT:
                text.print_sample(wide_console(), chosen, share, canaries.not_shown(current, wanted))
            planned = session.plan(SUBSCRIPTIONS.changes(current, {resource.name: resource}))
            _carry_out(session, planned, yes=yes, names=names, quiet=answer.form is not Format.TEXT)
            settling_ms = max((each.interval_ms or INTERVAL_MS_DEFAULT for each in planned.touched), default=0)
        else:
            resource, settling_ms = canaries.found_canary(current, name), 0
        _compare(session, resource, settling_ms, intervals, _age(since), answer)


def expire(
    after: str | None,
    name: str | None,
    file: Path | None,
    interval: int | None,
    cancel: str | None,
    options: ClusterOptions,
    *,
    due: bool,
    yes: bool,
) -> None:
    """Sets or cancels a deadline, or removes the subscriptions that are due.

    Raises:
        ResourceError: the options do not go together, or the cluster refuses a request.
    """
    if sum((name is not None, due, cancel is not None)) != 1 or (interval is not None and not due):
        raise ResourceError("give AFTER and NAME, or --due, or --cancel NAME")
    with Cluster(options.settings()) as cluster:
        if due:
            _take_back(cluster, interval)
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
        change = "" if file is None else f"changed to what {file} has, and "
        typer.confirm(f"{text.printable(name)} is {change}reverted after {after}. Apply?", abort=True, err=True)
    wanted = deadlines.deadline(name, datetime.now(UTC) + length)
    cluster.alter(deadlines.setting(current, wanted, None if file is None else subscription))
    wide_console().print(
        f"{text.printable(name)} is taken back at {wanted.at:%Y-%m-%d %H:%M:%S} UTC, by the fleetgauge export of its "
        "topic, a serve with subscriptions.bootstrap.servers, or fleetgauge subscriptions expire --due"
    )


def _age(text: str) -> timedelta:
    length_us = parse_duration_us(text)
    if not length_us:
        raise ResourceError(f"{text!r} is not a time: give one up to 30d, such as 30m or 2h")
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
        text.print_plan(wide_console(), planned, session.problem, names=names)
    carry_out(SUBSCRIPTIONS, session.cluster, planned.changes, yes=yes, quiet=quiet)


def _compare(
    session: _Session, resource: Resource, settling_ms: int, intervals: int, since: timedelta, answer: ClusterAnswer
) -> None:
    """Waits until the sample knows of its canary and for some push intervals more, and compares it with the others.

    A client learns of a new subscription by its next push, at the end of its present interval.
    """
    if session.problem or not intervals:
        if answer.form is Format.TEXT:
            wide_console().print(
                session.problem or f"Look again: fleetgauge subscriptions canary {text.base(resource)}"
            )
        return
    wait_s = intervals * resource.interval_ms / 1000
    whole = duration(settling_ms / 1000 + wait_s)
    Console(stderr=True).print(f"comparing in {whole}; Ctrl-C leaves the canary as it is", highlight=False)
    time.sleep(settling_ms / 1000)
    begin = datetime.now(UTC)
    earlier = session.clients()
    time.sleep(wait_s)
    later = session.clients()
    now = datetime.now(UTC)
    minutes = (now - begin).total_seconds() / 60
    fares = list(canaries.compared(resource, earlier, later, minutes))
    if session.tables is not None:
        mine, others = canaries.members(resource, later)
        measured = session.tables.measured
        fares = [measured(one, ids, now - since) for one, ids in zip(fares, (set(mine), set(others)), strict=True)]
    answer.print(text.fares_answer(resource, fares[0], fares[1], minutes))


@contextmanager
def _session(target: Target) -> Iterator[_Session]:
    """Opens the cluster, and finds the source of the live clients, by a command's options."""
    from fleetgauge.cluster.subscriptions.tables import FleetTables

    tables = None if target.tables is None else FleetTables(target.tables)
    read, problem = _source(target, tables)
    with Cluster(target.settings()) as cluster:
        yield _Session(cluster=cluster, clients=read, tables=tables, problem=problem)


def _source(target: Target, tables: "FleetTables | None") -> tuple[Callable[[], Sequence[Client]], str]:
    """The reader of the live clients, and the reason why none are known; empty if they are.

    Raises:
        NotRunningError: the process that the options name does not answer.
    """
    from fleetgauge.base.errors import ConfigError
    from fleetgauge.cli.cluster.client_rows import client_source
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

"""`fleetgauge quotas`: the quotas of brokers and nodes, declared in a file."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.text import Text

from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.cli.cluster_options import (
    EXIT_CHANGE,
    BootstrapServer,
    CommandConfig,
    PlanCommand,
    Timeout,
    Yes,
    cluster_settings,
)
from fleetgauge.cli.subscriptions_text import SIGNS, STYLES, Form, write_json
from fleetgauge.cli.table_file import read_tables
from fleetgauge.cluster.quotas.limits import ALL_KEYS, Entity, Limits, by_entity, entity_path, read_limits
from fleetgauge.cluster.quotas.planning import Change, QuotaError, alterations, plan
from fleetgauge.cluster.quotas.usage import REPLAYED, Usage, usage
from fleetgauge.terminal.options import Command
from fleetgauge.terminal.table import print_rows, wide_console
from fleetgauge.terminal.text import printable

if TYPE_CHECKING:
    from fleetgauge.cluster.quotas.cluster import QuotaCluster

app = typer.Typer(
    help="Plan and apply the quotas of brokers or nodes, and see how far they are used.", no_args_is_help=True
)

File = Annotated[
    Path, typer.Option("--file", "-f", help='TOML file with the tables [quotas."ENTITY"], as a node\'s has them.')
]
Prune = Annotated[bool, typer.Option("--prune", help="Delete limits that are not in the file.")]
TablesRoot = Annotated[
    str | None,
    typer.Option("--tables", metavar="ROOT", help="Standing tables (fleet run): how far byte rates are used."),
]
Since = Annotated[
    str, typer.Option("--since", metavar="AGE", help="With --tables: usage in windows since then: 30m, 2h, 7d.")
]
OutputForm = Annotated[Form, typer.Option("--format", help="Output format.")]
_UNKNOWN: Final = "unknown"


@app.command(name="list", cls=Command)
def list_them(
    bootstrap_server: BootstrapServer,
    command_config: CommandConfig = None,
    timeout: Timeout = 10_000,
    tables: TablesRoot = None,
    since: Since = "1h",
    form: OutputForm = Form.TABLE,
) -> None:
    """List the quotas, and with --tables how far byte rates are used.

    Utilization is the highest rate at any broker, divided by the limit. It is unknown if no client of a limit reports
    bytes (librdkafka and franz-go report none), and for other keys, which no client reports.

    `fleetgauge quotas list --bootstrap-server broker-1:9092 --tables ./fleet`
    """
    with _cluster(bootstrap_server, command_config, timeout) as cluster:
        limits = cluster.list()
    used = {} if tables is None else usage(limits, tables, since)
    if form is Form.JSON:
        write_json([_as_json(*place, used.get((place[0], place[1]))) for place in _places(limits)])
        return
    rows = [_row(*place, used.get((place[0], place[1])), is_asked=tables is not None) for place in _places(limits)]
    if rows:
        print_rows(wide_console(), tuple(rows[0]), rows, right={"limit", "utilization", "clients", "without bytes"})
    else:
        wide_console().print("there is no quota")


@app.command(name="plan", cls=PlanCommand)
def plan_them(
    file: File,
    bootstrap_server: BootstrapServer,
    command_config: CommandConfig = None,
    timeout: Timeout = 10_000,
    prune: Prune = False,
    form: OutputForm = Form.TABLE,
) -> None:
    """Show what a file would change. Changes nothing.

    Exits with 0 if nothing would change, with 2 if something would, with 1 after an error.

    `fleetgauge quotas plan -f quotas.toml --bootstrap-server broker-1:9092`
    """
    wanted = read_file(file)
    with _cluster(bootstrap_server, command_config, timeout) as cluster:
        planned = plan(cluster.list(), wanted, prune=prune)
    _print_plan(wide_console(), planned, form)
    if has_changes(planned):
        raise typer.Exit(EXIT_CHANGE)


@app.command(cls=Command)
def apply(
    file: File,
    bootstrap_server: BootstrapServer,
    command_config: CommandConfig = None,
    timeout: Timeout = 10_000,
    prune: Prune = False,
    yes: Yes = False,
) -> None:
    """Make the cluster's limits those of a file; others are left alone without --prune. Shows the plan first.

    `fleetgauge quotas apply -f quotas.toml --bootstrap-server broker-1:9092`
    """
    wanted = read_file(file)
    with _cluster(bootstrap_server, command_config, timeout) as cluster:
        planned = plan(cluster.list(), wanted, prune=prune)
        _print_plan(wide_console(), planned, Form.TABLE)
        if not has_changes(planned):
            return
        if not yes:
            typer.confirm("Apply?", abort=True, err=True)
        cluster.alter(alterations(planned, cluster.list()))
    wide_console().print("Applied.")


def read_file(path: Path) -> Limits:
    """The limits of a TOML file, `[quotas."ENTITY"]` as in a node's configuration.

    Raises:
        QuotaError: an entity or a value is not allowed.
        SubscriptionError: a key is unknown.
        ConfigError: the file cannot be read, or is not TOML.
    """
    tables = read_tables(path, "quotas", ALL_KEYS, "quota")
    try:
        return by_entity(read_limits(tables))
    except InvalidConfigError as error:
        raise QuotaError(f"{path}: {error}") from error


@contextmanager
def _cluster(bootstrap_server: str, command_config: Path | None, timeout_ms: int) -> "Iterator[QuotaCluster]":
    settings = cluster_settings(bootstrap_server, command_config, timeout_ms)
    from fleetgauge.cluster.quotas.cluster import QuotaCluster

    with QuotaCluster(settings) as cluster:
        yield cluster


def _places(limits: Limits) -> list[tuple[Entity, str, float]]:
    found = [(entity, key, limit) for entity, values in limits.items() for key, limit in values.items()]
    return sorted(found, key=lambda place: (entity_path(place[0]), place[1]))


def _row(entity: Entity, key: str, limit: float, used: Usage | None, *, is_asked: bool) -> dict[str, str]:
    row = {"entity": entity_path(entity), "key": key, "limit": number(limit)}
    if not is_asked:
        return row
    if used is None:
        no_clients = "no client" if key in REPLAYED else ""
        return {**row, "utilization": _UNKNOWN, "clients": no_clients, "without bytes": "", "throttled": ""}
    return {
        **row,
        "utilization": _UNKNOWN if used.utilization is None else f"{used.utilization:.0%}",
        "clients": str(used.instances),
        "without bytes": str(used.without_bytes),
        "throttled": str(used.throttled or "none"),
    }


def number(value: float) -> str:
    """A limit as the tools print it, whole numbers without a fraction.

    >>> number(1048576.0), number(12.5)
    ('1048576', '12.5')
    """
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _as_json(entity: Entity, key: str, limit: float, used: Usage | None) -> dict[str, Any]:
    return {
        "entity": entity_path(entity),
        "key": key,
        "limit": limit,
        "utilization": None if used is None else used.utilization,
        "clients": None if used is None else used.instances,
        "clients_without_bytes": None if used is None else used.without_bytes,
        "throttled": None if used is None else used.throttled,
    }


def _print_plan(console: Console, planned: Sequence[Change], form: Form) -> None:
    if form is Form.JSON:
        write_json({"changes": [_change_as_json(each) for each in planned], "has_changes": has_changes(planned)})
        return
    for each in planned:
        console.print(Text(f"{SIGNS[each.action]} {_described(each)}", style=STYLES.get(each.action, "")))
    if not has_changes(planned):
        console.print("Nothing would change.")


def has_changes(planned: Sequence[Change]) -> bool:
    """True if a plan changes something."""
    return any(each.is_change for each in planned)


def _described(change: Change) -> str:
    limits = [number(each) for each in (change.before, change.after) if each is not None]
    shown = " -> ".join(dict.fromkeys(limits))
    return printable(f"{entity_path(change.entity)}  {change.key}  {shown}  ({change.action})")


def _change_as_json(change: Change) -> Mapping[str, Any]:
    return {
        "entity": entity_path(change.entity),
        "key": change.key,
        "action": change.action,
        "before": change.before,
        "after": change.after,
    }

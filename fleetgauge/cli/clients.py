"""`fleetgauge clients`: the client instances of a running node, as of now."""

import csv
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import typer
from rich.console import Console

from fleetgauge.cli.options import ConfigFile, LogDirs, Overrides, data_directory
from fleetgauge.cli.units import ago, amount, duration, size
from fleetgauge.clients_page import DEFAULT_SORT, FIELDS, MAX_LIMIT, ClientsPage, PageRequest, as_object
from fleetgauge.node_socket import ask
from fleetgauge.status import NotRunningError
from telemetry.inventory import ClientFilter, ClientState
from terminal.options import Columns
from terminal.table import chosen_columns, print_rows, wide_console
from terminal.text import csv_value, printable
from wire.errors import FleetgaugeError

Row = dict[str, Any]

_URL_WITHIN_S: Final = 30.0
_ERROR_BYTES: Final = 1_000
_HEADINGS: Final = (
    "client instance id", "client id", "software", "principal", "address", "subscription", "interval", "last push",
    "pushes", "state", "last error",
)  # fmt: skip
_LEAST: Final = ("subscription", "interval", "software", "principal", "pushes", "address", "last error", "last push")


class QuestionError(FleetgaugeError):
    """The node did not take the question; the text says why."""


def clients(
    config: ConfigFile = None,
    override: Overrides = None,
    log_dirs: LogDirs = None,
    url: Annotated[
        str | None, typer.Option("--url", help="The HTTP port of a node elsewhere, e.g. http://10.0.0.5:9465.")
    ] = None,
    client_id: Annotated[str, typer.Option("--client-id", help="Only this client.id; orders-* for a prefix.")] = "",
    state: Annotated[str, typer.Option("--state", help=f"Only these: {', '.join(ClientState)}.")] = "",
    software: Annotated[
        str, typer.Option("--software", help="Only this, as name or name/version: apache-kafka-java/4.*.")
    ] = "",
    principal: Annotated[str, typer.Option("--principal", help="Only this principal, e.g. User:alice.")] = "",
    instance_id: Annotated[
        str, typer.Option("--instance-id", help="Only this, in any form that clients log (base64, hex, UUID).")
    ] = "",
    sort: Annotated[str, typer.Option("--sort", help="A column of the JSON form.")] = DEFAULT_SORT,
    ascending: Annotated[bool, typer.Option("--ascending", help="The smallest first.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=MAX_LIMIT, help="Rows of the table.")] = 50,
    form: Annotated[
        Literal["table", "json", "csv"],
        typer.Option("--format", "-f", help="json (an object a line) and csv hold every client."),
    ] = "table",
    columns: Columns = None,
    watch: Annotated[
        float | None, typer.Option("--watch", "-w", min=0.5, help="Show the table again every so many seconds.")
    ] = None,
) -> None:
    """Show the client instances of a running node: who, from where, asked for what, last push, last error, state.

    The node is found by its data directory, as by fleetgauge status, or by --url. Exits with 1 where none answers.
    """
    given = {
        "client_id": client_id,
        "state": state,
        "software": software,
        "principal": principal,
        "instance_id": instance_id,
    }
    wanted = {key: value for key, value in given.items() if value}
    try:
        ClientFilter.of(wanted)
        page = PageRequest(sort=sort, descending=not ascending, limit=limit)
        shown = chosen_columns(_HEADINGS, columns) if columns is not None else ()
    except ValueError as error:
        raise QuestionError(str(error)) from error
    source: _Socket | _Url
    source = _Url(url) if url is not None else _Socket(data_directory(config, override, log_dirs).node_socket)
    if form == "table":
        _show(lambda: source.page(wanted, page), shown, watch)
    else:
        _write(source.rows(wanted), form)


class _Socket:
    """The node of this machine: answers without the HTTP port, too."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def page(self, wanted: dict[str, str], page: PageRequest) -> tuple[list[Row], int]:
        kept = ClientsPage(page)
        for rows in self._slices(wanted):
            kept.take(rows)
        return kept.rows(), kept.total

    def rows(self, wanted: dict[str, str]) -> Iterator[Row]:
        for rows in self._slices(wanted):
            yield from (as_object(row) for row in rows)

    def _slices(self, wanted: dict[str, str]) -> Iterator[list[tuple[Any, ...]]]:
        for answer in ask(self._path, {"ask": "clients", "filter": wanted}):
            yield answer["rows"]


class _Url:
    """A node's HTTP port."""

    def __init__(self, url: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise QuestionError("--url is http://host:port, as fleetgauge serve says it at its start")
        self._url = url.rstrip("/")

    def page(self, wanted: dict[str, str], page: PageRequest) -> tuple[list[Row], int]:
        order = "desc" if page.descending else "asc"
        (line,) = self._get({**wanted, "sort": page.sort, "order": order, "limit": str(page.limit)}, whole=True)
        found = json.loads(line)
        return found["clients"], found["total"]

    def rows(self, wanted: dict[str, str]) -> Iterator[Row]:
        for line in self._get({**wanted, "format": "jsonl"}):
            yield json.loads(line)

    def _get(self, query: dict[str, str], *, whole: bool = False) -> Iterator[bytes]:
        address = f"{self._url}/clients?{urlencode(query)}"
        try:
            with urlopen(address, timeout=_URL_WITHIN_S) as answer:  # noqa: S310  # only http, see __init__
                if whole:
                    yield answer.read()
                else:
                    yield from answer
        except HTTPError as error:
            raise QuestionError(f"{self._url} answered {error.code}: {_problem(error)}") from error
        except (URLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise NotRunningError(f"no node answers at {self._url}: {reason}") from error


def _problem(error: HTTPError) -> str:
    try:
        return printable(str(json.loads(error.read(_ERROR_BYTES))["error"]))
    except (ValueError, KeyError, TypeError, OSError):
        return str(error.reason)


def _write(rows: Iterable[Row], form: str) -> None:
    if form == "json":
        for row in rows:
            sys.stdout.write(json.dumps(row) + "\n")
        return
    # Text is in quotes: no separator in it begins a cell, whatever a spreadsheet divides at.
    writer = csv.writer(sys.stdout, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(FIELDS)
    for row in rows:
        flat = (",".join(value) if isinstance(value, list) else value for value in row.values())
        writer.writerow(map(csv_value, flat))


def _show(read: Callable[[], tuple[list[Row], int]], shown: tuple[str, ...], every_s: float | None) -> None:
    console = wide_console()
    with suppress(KeyboardInterrupt):
        while True:
            rows, total = read()
            if every_s is not None and console.is_terminal:
                console.clear()
            _print(console, rows, total, shown)
            if every_s is None:
                return
            time.sleep(every_s)


def _print(console: Console, rows: list[Row], total: int, shown: tuple[str, ...]) -> None:
    if not rows:
        console.print("no client instance is known that fits: clients appear with their first telemetry request")
        return
    cells = [_cells(row) for row in rows]
    print_rows(console, shown or _HEADINGS, cells, right={"pushes"}, least=() if shown else _LEAST)
    if total > len(rows):
        console.print(
            f"{amount(total - len(rows))} more of {amount(total)}: raise --limit, or take all with --format json"
        )


def _cells(row: Row) -> dict[str, str]:
    """What the table says of a client."""
    host = f"[{row['client_source_address']}]" if ":" in row["client_source_address"] else row["client_source_address"]
    error = "-"
    if row["last_error"]:
        error = (
            f"{row['last_error']} ({row['last_error_reason']}), {ago(row['last_error_at'])}, {row['refused']} in all"
        )
    return {
        "client instance id": row["client_instance_id"],
        "client id": row["client_id"] or "-",
        "software": f"{row['client_software_name']}/{row['client_software_version']}",
        "principal": row["principal"],
        "address": f"{host}:{row['client_source_port']}",
        "subscription": ", ".join(row["subscriptions"]) or "none",
        "interval": duration(row["push_interval_ms"] / 1_000),
        "last push": ago(row["last_push_at"]) if row["last_push_at"] else "never",
        "pushes": f"{amount(row['pushes'])} ({size(row['push_bytes'])})",
        "state": f"{row['state']}, asks for records" if row["asked_for_records"] else row["state"],
        "last error": error,
    }

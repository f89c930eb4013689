"""Rows of `fleetgauge clients`: asked of the processes of this machine, or of an HTTP listener, and printed."""

import io
import json
import os
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode
from urllib.request import Request

from rich.console import Console

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.base.exchange import Answer as HttpAnswer
from fleetgauge.base.exchange import exchange
from fleetgauge.cli.node.running import running_exports
from fleetgauge.cli.options import DataOptions
from fleetgauge.cli.units import ago, amount, duration, size
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.status.clients_page import FIELDS, ClientsPage, PageRequest, as_object
from fleetgauge.node.status.node_socket import NotRunningError, ask, read_status
from fleetgauge.telemetry.instances.inventory import (
    ClientFilter,
    ClientRow,
    key_among,
    sender_key,
    with_software_of,
)
from fleetgauge.terminal.answer import Answer, Format, PlainRows
from fleetgauge.terminal.options import TableOptions
from fleetgauge.terminal.table import print_rows, wide_console
from fleetgauge.terminal.text import printable

Row = dict[str, Any]

_URL_WITHIN_S: Final = 60.0
"""Time for a whole answer [s]."""
_ANSWER_BYTES: Final = 512 << 20
"""Longest answer that is read [B]: some 500,000 clients."""
_TOKEN_FILE: Final = "FLEETGAUGE_TOKEN_FILE"  # noqa: S105  # a variable's name
"""Environment variable with the path of the bearer token for `--url`."""
_ERROR_BYTES: Final = 1_000
_HEADINGS: Final = (
    "client instance id", "client id", "software", "principal", "address", "subscription", "broker", "partition",
    "interval", "last push", "pushes", "state", "last error",
)  # fmt: skip
_LEAST: Final = (
    "subscription", "broker", "partition", "interval", "software", "principal", "pushes", "address", "last error",
    "last push",
)  # fmt: skip
_OF_TOPIC: Final = ("broker", "partition")
"""Columns only for the clients of a topic."""
_OF_NODE: Final = ("subscription",)
"""Columns only for the clients of a node."""


class RequestError(FleetgaugeError):
    """The request is invalid, or the node refused it."""


def show_clients(
    data: DataOptions,
    url: str | None,
    given: dict[str, str],
    sort: str,
    answer: TableOptions,
    *,
    ascending: bool,
    every_s: float | None,
) -> None:
    """Prints the clients.

    Args:
        data: the data directory of the processes that are asked.
        url: HTTP listener of the process that is asked instead.
        given: filters by their keys; an empty one is none.
        sort: field that text is sorted by.
        answer: form of the answer.
        ascending: sort in ascending order.
        every_s: text is printed again at this interval [s]; None prints it once.

    Raises:
        RequestError: a filter, `sort` or the limit is not allowed.
        NotRunningError: no process answers.
    """
    wanted = {key: value for key, value in given.items() if value}
    try:
        ClientFilter.of(wanted)
        page = PageRequest(sort=sort, descending=not ascending, limit=answer.limit)
    except ValueError as error:
        raise RequestError(str(error)) from error
    to = answer.to()
    shown = to.headings(_HEADINGS)
    source = client_source(data, url)

    def text(console: Console) -> None:
        _print(console, source.page(wanted, page), shown, is_filtered=bool(wanted))

    if every_s is None or to.form is not Format.TEXT:
        rows = () if to.is_for_people else source.rows(wanted)
        answer.print(Answer(text=text, rows=PlainRows(rows, FIELDS)))
    else:
        _repeat(text, every_s)


def client_source(data: DataOptions, url: str | None) -> "_Sockets | _Url":
    """The processes that use a data directory, or the node at `url`.

    Raises:
        NotRunningError: no process uses the data directory.
        ConfigError: there is no data directory.
    """
    return _Url(url) if url is not None else _Sockets(data.directory())


class _Page(NamedTuple):
    """Rows of the table, the number of all matching clients, and the coverage of each process."""

    rows: list[Row]
    total: int
    coverages: list[dict[str, Any]]


class _Sockets:
    """The processes of this machine that use a data directory: its node, else every `fleetgauge export`. They answer on
    their sockets, also without HTTP.
    """

    def __init__(self, directory: DataDirectory) -> None:
        self._paths = _answering(directory)

    def page(self, wanted: dict[str, str], page: PageRequest) -> _Page:
        kept = ClientsPage(page)
        coverages: list[dict[str, Any]] = []
        for rows in self._slices(wanted, coverages):
            kept.take(rows)
        return _Page(kept.rows(), kept.total, coverages)

    def rows(self, wanted: dict[str, str]) -> Iterator[Row]:
        for rows in self._slices(wanted, []):
            yield from (as_object(row) for row in rows)

    def _slices(self, wanted: dict[str, str], coverages: list[dict[str, Any]]) -> Iterator[list[tuple[Any, ...]]]:
        if len(self._paths) > 1:
            # Two processes may have the same client: its row, and so its state, is known only when all rows are there.
            asked = {key: value for key, value in wanted.items() if key != "state"}
            states = ClientFilter.of(wanted).states
            latest = _latest(
                row for path in self._paths for answer in _ask(path, asked, coverages) for row in answer["rows"]
            )
            yield [row for row in latest if not states or ClientRow(*row).state in states]
            return
        for answer in _ask(self._paths[0], wanted, coverages):
            yield answer["rows"]


def _answering(directory: DataDirectory) -> list[Path]:
    """The sockets of the processes.

    Raises:
        NotRunningError: no process answers.
    """
    try:
        read_status(directory.node_socket)
    except NotRunningError:
        exports = running_exports(directory)
        if not exports:
            raise
        return list(exports)
    return [directory.node_socket]


def _ask(path: Path, wanted: dict[str, str], coverages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for answer in ask(path, {"ask": "clients", "filter": wanted}):
        if "coverage" in answer:
            coverages.append(answer["coverage"])
        yield answer


def _latest(rows: Iterable[tuple[Any, ...]]) -> Iterable[tuple[Any, ...]]:
    """Merges the rows of a client: one process may read a partition for one exporter, another for another."""
    latest: dict[Hashable, ClientRow] = {}
    for values in rows:
        row = ClientRow(*values)
        key = key_among(sender_key(row), row, latest)
        other = latest.get(key, row)
        earlier, later = sorted((other, row), key=lambda each: each.last_seen_at)
        latest[key] = with_software_of(later, earlier)
    return latest.values()


class _Url:
    """A node's HTTP listener.

    Args:
        url: where it listens.
        within_s: for a whole answer [s].
        most_bytes: of an answer.
    """

    def __init__(self, url: str, *, within_s: float = _URL_WITHIN_S, most_bytes: int = _ANSWER_BYTES) -> None:
        if not url.startswith(("http://", "https://")):
            raise RequestError("--url is http(s)://host:port, as fleetgauge serve and export log it at their start")
        self._url = url.rstrip("/")
        self._within_s = within_s
        self._most_bytes = most_bytes

    def page(self, wanted: dict[str, str], page: PageRequest) -> _Page:
        order = "desc" if page.descending else "asc"
        answer = self._parsed(self._get({**wanted, "sort": page.sort, "order": order, "limit": str(page.limit)}))
        try:
            rows = [self._row(row) for row in answer["clients"]]
            return _Page(rows, int(answer["total"]), [answer["coverage"]] if "coverage" in answer else [])
        except (KeyError, TypeError, ValueError) as error:
            raise self._no_node() from error

    def rows(self, wanted: dict[str, str]) -> Iterator[Row]:
        for line in io.BytesIO(self._get({**wanted, "format": "jsonl"})):
            yield self._row(self._parsed(line))

    def _parsed(self, line: bytes) -> Any:
        try:
            return json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._no_node() from error

    def _row(self, row: Any) -> Row:
        if not isinstance(row, dict) or not row.keys() >= set(FIELDS):
            raise self._no_node()
        return row

    def _no_node(self) -> RequestError:
        return RequestError(f"{self._url} does not answer as fleetgauge serve and export do: is it another server?")

    def _get(self, query: dict[str, str]) -> bytes:
        request = Request(f"{self._url}/clients?{urlencode(query)}")  # noqa: S310  # only http, see __init__
        if token := _token():
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        try:
            answer = exchange(request, within_s=self._within_s, most_bytes=self._most_bytes + 1)
        except TimeoutError as error:
            raise NotRunningError(f"{self._url}: {error}; {_LESS}") from error
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise NotRunningError(f"no node answers at {self._url}: {reason}") from error
        if answer.status != HTTPStatus.OK:
            hint = f"; set {_TOKEN_FILE} to a file with a token" if answer.status == HTTPStatus.UNAUTHORIZED else ""
            raise RequestError(f"{self._url} answered {answer.status}: {_problem(answer)}{hint}")
        if len(answer.body) > self._most_bytes:
            raise RequestError(f"{self._url}: the answer has more than {size(self._most_bytes)}; {_LESS}")
        return answer.body


_LESS: Final = (
    "is it an HTTP listener of Fleetgauge (http.listeners)? --client-id, --state and --software shorten a long list"
)


def _token() -> str:
    """The bearer token for nodes with a login; empty without one."""
    path = os.environ.get(_TOKEN_FILE, "")
    try:
        return Path(path).read_text(encoding="utf-8").strip() if path else ""
    except (OSError, ValueError) as error:
        raise RequestError(f"{_TOKEN_FILE}: cannot read {path}: {error}") from error


def _problem(answer: HttpAnswer) -> str:
    try:
        return printable(str(json.loads(answer.body[:_ERROR_BYTES])["error"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return answer.reason


def _repeat(text: Callable[[Console], None], every_s: float) -> None:
    console = wide_console()
    with suppress(KeyboardInterrupt):
        while True:
            if console.is_terminal:
                console.clear()
            text(console)
            time.sleep(every_s)


def _print(console: Console, page: _Page, shown: tuple[str, ...], *, is_filtered: bool) -> None:
    if page.rows:
        cells = [_cells(row) for row in page.rows]
        left_out = _OF_NODE if page.coverages else _OF_TOPIC
        headings = shown or tuple(name for name in _HEADINGS if name not in left_out)
        print_rows(console, headings, cells, right={"pushes"}, least=() if shown else _LEAST)
    elif is_filtered:
        console.print("no client instance matches the filter")
    else:
        console.print(_NONE_OF_TOPIC if page.coverages else _NONE_OF_NODE)
    if page.total > len(page.rows):
        hidden = page.total - len(page.rows)
        console.print(f"{amount(hidden)} more of {amount(page.total)}: raise --limit, or get all with --format json")
    for coverage in page.coverages:
        console.print(printable(_covered(coverage)))


_FIVE_MINUTES: Final = (
    "no client instance is known yet: a client requests its subscription when it connects and, without one, every five "
    "minutes by default (KIP-714), so it appears within five minutes."
)
_NONE_OF_NODE: Final = (
    f"{_FIVE_MINUTES} If none does: is there a subscription ([client-metrics.<name>]; fleetgauge status), do clients "
    "connect to these listeners, and is their enable.metrics.push on?"
)
_NONE_OF_TOPIC: Final = (
    f"{_FIVE_MINUTES} If none does: is the plugin loaded (the brokers' log: Client telemetry pushes are written to the "
    "topic), is there a subscription (kafka-client-metrics.sh --describe), and does the plugin write to this topic "
    "(fleetgauge.topic)?"
)


def _covered(coverage: dict[str, Any]) -> str:
    """The part of the topic that a listing covers, which explains the rows of one of several processes."""
    partitions, topic = coverage["partitions"], coverage["topic"]
    if not partitions:
        return f"this process reads no partition of topic {topic} now: others of its group do, or it has not joined yet"
    shown = ", ".join(str(each) for each in partitions)
    read_up_to = coverage["read_up_to"]
    known = "not read to their end yet" if read_up_to is None else f"read up to {ago(read_up_to)}"
    return (
        f"clients of topic {topic}, partitions {shown} ({known}); others are listed by the processes that read their "
        "partitions"
    )


def _cells(row: Row) -> dict[str, str | None]:
    """The row of a client in the table; a topic's records lack some values."""
    host = f"[{row['client_source_address']}]" if ":" in row["client_source_address"] else row["client_source_address"]
    return {
        "client instance id": row["client_instance_id"],
        "client id": row["client_id"] or "-",
        "software": f"{row['client_software_name']}/{row['client_software_version']}",
        "principal": row["principal"],
        "address": host if row["client_source_port"] is None else f"{host}:{row['client_source_port']}",
        "subscription": None if row["subscriptions"] is None else ", ".join(row["subscriptions"]) or "none",
        "broker": None if row["broker"] is None else str(row["broker"]),
        "partition": None if row["partition"] is None else str(row["partition"]),
        "interval": "-" if row["push_interval_ms"] is None else duration(row["push_interval_ms"] / 1_000),
        "last push": ago(row["last_push_at"]) if row["last_push_at"] else "never",
        "pushes": amount(row["pushes"]) + ("" if row["push_bytes"] is None else f" ({size(row['push_bytes'])})"),
        "state": f"{row['state']}, asks for records" if row["asked_for_records"] else row["state"],
        "last error": "; ".join(_errors(row)) or "-",
    }


def _errors(row: Row) -> Iterator[str]:
    """The latest refusal, and the latest push that was accepted although it is malformed."""
    if row["last_error"]:
        yield f"{row['last_error']} ({row['last_error_reason']}), {ago(row['last_error_at'])}, {row['refused']} in all"
    if row["malformed"]:
        yield f"{row['malformed_reason']}, {ago(row['malformed_at'])}, {amount(row['malformed'])} in all"

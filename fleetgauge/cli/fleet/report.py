"""`fleet report`: the page that an operator forwards."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fleetgauge.cli.fleet.explain import Kind
from fleetgauge.cli.fleet.options import DEFAULT_TABLES, StoreConf, Tables, needs_extra, now, parse_conf, sentences
from fleetgauge.fleet.errors import OutputError, WrongOptionError
from fleetgauge.fleet.source.selection import parse_time

_STDOUT = "-"


def report(
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="HTML file to write; - is stdout. It is replaced.")
    ],
    tables: Tables = DEFAULT_TABLES,
    since: Annotated[
        str | None,
        typer.Option(
            help="Beginning of what the report is about, changes too: an age before the end of the tables (24h, 7d) "
            "or a time (2026-01-31T08:00, UTC). By default 24h.",
        ),
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(
            metavar="SUBJECT", help="A page of one client, instance, group, node, path or version, as explain takes it."
        ),
    ] = None,
    kind: Annotated[Kind | None, typer.Option(help="With --subject: only a subject of this kind.")] = None,
    cluster: Annotated[str | None, typer.Option(help="With --subject: only in the cluster with this id.")] = None,
    conf: StoreConf = None,
) -> None:
    """Write the state of the fleet as one HTML file that needs no network, to be forwarded, printed or archived.

    Who is in trouble, since when, who has to act and what to do; the evidence plotted; latency by client and broker,
    throttling, groups, versions, what cannot be judged, and what changed. Made from the tables that `fleet run` keeps.

    `fleetgauge fleet report --tables ./fleet --output report.html --since 24h`

    `fleetgauge fleet report --tables ./fleet --output orders.html --subject orders`
    """
    with needs_extra("tables"):
        from fleetgauge.fleet.html.page import page, subject_page
        from fleetgauge.fleet.html.report import ReportRequest, subject_report
        from fleetgauge.fleet.html.report import report as fleet_report
    request = ReportRequest(tables=tables, since=since, conf=parse_conf(conf), made_at=now())
    if since is not None:
        parse_time(since, request.made_at)  # a time in no known form is said before the tables are read
    if subject is None and (kind, cluster) != (None, None):
        raise WrongOptionError("--kind and --cluster say which --subject is meant: give that too")
    _check_output(output)
    say = sentences(Console(stderr=True))
    if subject is not None:
        say(_written(output, subject_page(subject_report(request, subject, kind, cluster))))
        return
    found = fleet_report(request)
    say(f"{found.verdict} {_written(output, page(found))}")


def _check_output(output: str) -> None:
    """Raises OutputError where no file can be written there."""
    path = Path(output)
    if output != _STDOUT and path.is_dir():
        raise OutputError(f"{output} is a directory: give --output the name of a file, {path / 'report.html'}")
    if output != _STDOUT and not path.parent.is_dir():
        raise OutputError(f"there is no directory {path.parent}: make it, or give --output another name")


def _written(output: str, text: str) -> str:
    """Writes the page, whole or not at all, and says where it is."""
    data = text.encode("utf-8", "replace")
    if output == _STDOUT:
        sys.stdout.buffer.write(data)
        return f"{len(data) / 1000:,.0f} kB written."
    path, temporary = Path(output), None
    try:
        if path.exists() and not path.is_file():  # a pipe or a device
            path.write_bytes(data)
            return f"Written to {output}, {len(data) / 1000:,.0f} kB."
        path = path.resolve()  # what a link leads to is replaced, not the link
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}", delete=False) as file:
            temporary = Path(file.name)
            file.write(data)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise OutputError(f"cannot write {output}: {error.strerror}") from error
    return f"Written to {output}, {len(data) / 1000:,.0f} kB."


def _umask() -> int:
    """Of this process: a temporary file is its owner's alone, a report is as readable as other files."""
    mask = os.umask(0)
    os.umask(mask)
    return mask

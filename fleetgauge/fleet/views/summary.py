"""Results of a run or of maintenance, for an operator or as one JSON object."""

from collections.abc import Mapping
from typing import Any, TextIO

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from fleetgauge.fleet.pipeline.report import RunReport
from fleetgauge.fleet.tables.maintain import Upkeep
from fleetgauge.terminal.table import list_table
from fleetgauge.terminal.text import printable


def run_as_json(report: RunReport) -> dict[str, Any]:
    """Report of a run as one object."""
    return {
        "source": report.source,
        "tables": report.tables,
        "took_s": round(report.took_s, 3),
        "batches": len(report.batches),
        **{name: report.total(name) for name in ("files", "pushes", "points", "repeats")},
        "group_offsets": report.offsets.rows,
        "traffic": report.traffic.rows,
        "rejects": report.rejects,
        "lost": report.lost,
        "changed": len(report.changed),
        "days": report.days,
        "is_judged_anew": report.is_judged_anew,
        "sizes": {
            name: {"rows_written": size.rows_written, "files": size.files, "bytes": size.size_bytes}
            for name, size in report.sizes.items()
        },
    }


def print_run(out: TextIO, report: RunReport) -> None:
    """Prints a few lines, and one table row per table."""
    console = Console(file=out, highlight=False, soft_wrap=True)
    if not report.is_news:
        judged = "; the verdicts were evaluated again, with other rules than before" if report.is_judged_anew else ""
        console.print(Text(printable(f"nothing new in {report.source}{judged}")))
    else:
        console.print(Text(_headline(report)))
        rows = {
            name: (f"{size.rows_written:,}", f"{size.files:,}", decimal(size.size_bytes))
            for name, size in report.sizes.items()
        }
        console.print(_table(("table", "rows written", "files", "size"), rows))
    for reason, count in report.rejects.items():
        console.print(Text(printable(f"set aside {count:,}: {reason}")))
    if report.changed:
        console.print(
            Text(
                printable(
                    f"{len(report.changed):,} files changed after they were read, for example {report.changed[0]}: "
                    "the changes are not read; write new data to files with new names"
                )
            )
        )
    if report.lost:
        console.print(
            Text(f"lost {report.lost:,}: retention deleted these records from the topic before they were read")
        )


def _headline(report: RunReport) -> str:
    took = f"{_counted(report.days, 'day')} computed; {report.took_s:,.1f} s"
    if report.traffic.files:
        took = f"{_counted(report.traffic.rows, 'row')} of traffic; {took}"
    if report.offsets.files:
        took = f"{_counted(report.offsets.rows, 'sample')} of groups; {took}"
    if not report.batches:
        return took
    repeats = report.total("repeats")
    files = f"from {_counted(report.total('files'), 'file')} " if report.total("files") else ""
    repeated = f", {_counted(repeats, 'repeat')} counted once" if repeats else ""
    return (
        f"{_counted(report.total('pushes'), 'push')} with {_counted(report.total('points'), 'point')} {files}in "
        f"{_counted(len(report.batches), 'batch')}{repeated}; {took}"
    )


def _counted(count: int, what: str) -> str:
    """A number with its noun.

    >>> _counted(1, "batch"), _counted(2_000, "push"), _counted(0, "day")
    ('1 batch', '2,000 pushes', '0 days')
    """
    if count == 1:
        return f"1 {what}"
    return f"{count:,} {what}{'es' if what.endswith(('ch', 'sh')) else 's'}"


def upkeep_as_json(done: Mapping[str, Upkeep]) -> dict[str, Any]:
    """Result for every table: files before and after, bytes, and deleted rows."""
    return {
        name: {
            "files_before": each.files_before,
            "files": each.files,
            "bytes": each.size_bytes,
            "deleted": each.deleted,
        }
        for name, each in done.items()
    }


def print_upkeep(out: TextIO, done: Mapping[str, Upkeep]) -> None:
    """Prints one table row per table."""
    rows = {
        name: (f"{each.files_before:,}", f"{each.files:,}", decimal(each.size_bytes), f"{each.deleted:,}")
        for name, each in done.items()
    }
    Console(file=out, highlight=False, soft_wrap=True).print(
        _table(("table", "files before", "files", "size", "rows deleted"), rows)
    )


def _table(headings: tuple[str, ...], rows: Mapping[str, tuple[str, ...]]) -> Table:
    table = list_table()
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table

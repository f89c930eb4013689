"""An explanation in a terminal."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from rich.console import Console

from fleetgauge.fleet.explain.explanation import Explanation, Row
from fleetgauge.fleet.explain.over_time import amount
from fleetgauge.fleet.pipeline.spans import from_micros
from fleetgauge.fleet.report.tables import time_text
from fleetgauge.fleet.views.coverage_list import reasons
from fleetgauge.fleet.views.verdict_list import duration_text, folded, print_cause, print_line
from fleetgauge.terminal.plot import sparkline
from fleetgauge.terminal.table import list_table, print_rows

_NARROW: Final = 64
"""Width of the columns beside the plot [characters]."""

_PLOT: Final = range(12, 49)


def print_explanations(console: Console, explanations: Sequence[Explanation]) -> None:
    """Prints each, with an empty line between two."""
    for number, each in enumerate(explanations):
        if number:
            console.print()
        print_explanation(console, each)


def print_explanation(console: Console, explanation: Explanation) -> None:
    """Prints an explanation, at most as wide as the console."""
    cluster = explanation.cluster_id or "unknown"
    open_ = sum(row["state"] == "open" for row in explanation.verdicts)
    counts = f"{open_} open and {len(explanation.verdicts) - open_} cleared verdicts concern it"
    print_line(console, f"{explanation.kind} {explanation.subject}, cluster {cluster}: {counts}.", style="bold")
    for rank, cause in enumerate(folded(explanation.verdicts), 1):
        console.print()
        print_cause(console, rank, cause, several=False, shows_all=True)
    _print_suspected(console, explanation.suspected)
    _print_series(console, explanation)
    _print_versions(console, explanation)
    _print_instances(console, explanation)
    if explanation.coverage is not None:
        _print_coverage(console, explanation.fine, explanation.coverage)


def _print_suspected(console: Console, rows: list[Row]) -> None:
    if not rows:
        return
    console.print()
    print_line(console, "Suspected", style="bold")
    for row in rows:
        since, opens = (from_micros(row[name]) for name in ("since_us", "opens_us"))
        lasted, needed = (duration_text(timedelta(seconds=row[name])) for name in ("lasted_s", "for_s"))
        print_line(
            console,
            f"{row['verdict']} {row['subject']}: since {since:%H:%M}, {lasted} of the {needed} required; opens at "
            f"{opens:%H:%M} UTC if it continues",
            2,
        )


def _print_series(console: Console, explanation: Explanation) -> None:
    figures = explanation.over_time
    console.print()
    if not figures.series:
        print_line(console, "No figures over time: it sent none of the metrics that verdicts use.")
        return
    begin, end = figures.windows[0], figures.windows[-1]
    lasts = duration_text(end - begin)
    print_line(
        console,
        f"{lasts} up to {end:%Y-%m-%d %H:%M} UTC, windows of {figures.window_s} s: {figures.of}; peers: "
        f"{figures.peers_are}.",
        style="bold",
    )
    if figures.trend is not None:
        print_line(console, f"By its sampled offsets the group is {figures.trend}.")
    width = min(max(console.width - _NARROW, _PLOT.start), _PLOT.stop - 1)
    table = list_table()
    for name in ("figure", f"{begin:%H:%M} to {end:%H:%M}"):
        table.add_column(name, no_wrap=True)
    for name in ("now", "before", "peers"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in figures.series:
        table.add_row(
            each.name,
            sparkline(each.values, width),
            *(amount(value, each.unit) for value in (each.now, each.before, each.peers)),
        )
    console.print(table)


def _print_versions(console: Console, explanation: Explanation) -> None:
    if explanation.kind == "version" or not explanation.versions:
        return
    console.print()
    print_line(console, "Versions" if explanation.looked_at is None else "Versions of those found", style="bold")
    for version in explanation.versions:
        counts = ", ".join(f"{count:,} {state}" for state, count in version["instances"].items())
        print_line(console, f"{version['software']}, {version['library'] or 'unknown library'}: {counts}", 2)


def _print_instances(console: Console, explanation: Explanation) -> None:
    if not explanation.instances:
        return
    console.print()
    listed = len(explanation.instances)
    print_line(console, f"Instances, {listed} of {explanation.instance_count:,}, last seen first", style="bold")
    is_of_one_client = explanation.kind in ("client", "instance")
    rows = [
        {
            "instance id": row["client_instance_id"],
            **({"address": row["client_source_address"]} if is_of_one_client else {"client id": row["client_id"]}),
            "state": row["state"] or "unknown",
            "last seen (UTC)": time_text(row["last_seen"]),
        }
        for row in explanation.instances
    ]
    print_rows(console, list(rows[0]), rows)


def _print_coverage(console: Console, fine: list[str], not_judged: list[Row]) -> None:
    console.print()
    if fine:
        print_line(console, f"Fine: {', '.join(fine)}.")
    if not not_judged:
        return
    print_line(console, "Not judged", style="bold")
    for why_not, verdicts in reasons(not_judged).items():
        print_line(console, f"{', '.join(verdicts)}: {why_not}", 2)

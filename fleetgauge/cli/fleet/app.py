"""`fleetgauge fleet ...`: questions to a landing zone or topic, answered at once; `python -m fleetgauge.cli.fleet.app`.

What a command needs is loaded only when it runs, so that help is quick and its absence is one sentence.
"""

import importlib

from fleetgauge.cli.fleet.explain import changes, explain
from fleetgauge.cli.fleet.options import FleetCommand
from fleetgauge.cli.fleet.questions import inventory, latency, points, rejects, summary
from fleetgauge.cli.fleet.report import report
from fleetgauge.cli.fleet.tables import maintain, run, show
from fleetgauge.cli.fleet.traffic import traffic
from fleetgauge.cli.fleet.verdicts import rules, verdicts
from fleetgauge.cli.fleet.watch import watch
from fleetgauge.cli.fleet.whatif import WhatifCommand, whatif
from fleetgauge.terminal.option_groups import App
from fleetgauge.terminal.options import HELP

app = App(
    name="fleet",
    help="Analyse the client fleet from a landing zone, a Kafka topic or standing tables. Tables and small zones are "
    "read at once; topics, large zones and those elsewhere need PySpark and Java 17, 21 or 25.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings=HELP,
)

# Of a room above this one, so it is loaded by its name.
simulate = importlib.import_module("fleetgauge.testkit.simulate_command").simulate

for command in (
    *(run, show, maintain, verdicts, explain, changes, report, traffic, rules, watch, whatif, simulate),
    *(inventory, summary, latency, points, rejects),
):
    app.command(cls=WhatifCommand if command is whatif else FleetCommand)(command)


def main() -> None:
    """The entry point of `python -m fleetgauge.cli.fleet.app`."""
    app(prog_name="fleet")


if __name__ == "__main__":
    main()

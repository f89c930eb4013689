"""`fleetgauge fleet ...`: questions to a landing zone, a topic or the tables; `python -m fleetgauge.cli.fleet.app`.

What a command needs is loaded only when it runs, so that help is quick and an extra that is missing is one sentence.
"""

from typing import Any, ClassVar, Final

from fleetgauge.cli.fleet.options import DEFAULT_SOURCE, FleetCommand
from fleetgauge.terminal.lazy_commands import LazyCommand, LazyGroup
from fleetgauge.terminal.option_groups import App

_TABLES: Final = "Keep tables"
_QUESTIONS: Final = "Ask"
_VERDICTS: Final = "Judge"


def _of_source(*tables: str) -> tuple[str, ...]:
    """`show` of questions to a landing zone or topic."""
    return ("show", *tables, "--source", DEFAULT_SOURCE)


class _Commands(LazyGroup):
    """The commands."""

    our_class: ClassVar = FleetCommand
    lazy: ClassVar = {
        "run": LazyCommand(
            "fleetgauge.cli.fleet.tables:run",
            "Process new input of a landing zone or topic into the tables, exactly once across reruns.",
            _TABLES,
        ),
        "watch": LazyCommand(
            "fleetgauge.cli.fleet.watch:watch",
            "Keep the tables up to date, and deliver verdicts as they open, change their severity, and clear.",
            _TABLES,
        ),
        "maintain": LazyCommand(
            "fleetgauge.cli.fleet.tables:maintain",
            "Compact the tables, delete what is too old, and remove files that nothing needs any more.",
            _TABLES,
        ),
        "show": LazyCommand(
            "fleetgauge.cli.fleet.show:show",
            "Show rows of the tables, or answers from a landing zone or topic: inventory, latency, points, rejects.",
            _QUESTIONS,
        ),
        "traffic": LazyCommand(
            "fleetgauge.cli.fleet.traffic:traffic",
            "Show the requests of every client that passed a gateway, with or without telemetry, the most frequent "
            "first.",
            _QUESTIONS,
        ),
        "whatif": LazyCommand(
            "fleetgauge.cli.fleet.whatif:whatif",
            "Replay the recorded byte rates of clients under other quotas: which would have been throttled, and for "
            "how long.",
            _QUESTIONS,
        ),
        "verdicts": LazyCommand(
            "fleetgauge.cli.fleet.verdicts:verdicts",
            "List the verdicts, best rank first: which clients and brokers are in trouble, who has to act, and what to "
            "change.",
            _VERDICTS,
        ),
        "explain": LazyCommand(
            "fleetgauge.cli.fleet.explain:explain",
            "Explain a client, instance, group, node, path or version: all that the tables know of it.",
            _VERDICTS,
        ),
        "changes": LazyCommand(
            "fleetgauge.cli.fleet.explain:changes",
            "List the changes since a time: clients and versions that came and left, verdicts that opened and cleared.",
            _VERDICTS,
        ),
        "report": LazyCommand(
            "fleetgauge.cli.fleet.report:report",
            "Write the state of the fleet as one HTML file that needs no network, to be forwarded, printed or "
            "archived.",
            _VERDICTS,
        ),
        "rules": LazyCommand(
            "fleetgauge.cli.fleet.verdicts:rules",
            "Print the figures of every verdict as TOML: the defaults, or those of a rule file.",
            _VERDICTS,
        ),
        "simulate": LazyCommand(
            "fleetgauge.testkit.simulate_command:simulate",
            "Write the telemetry of a simulated fleet: brokers, applications, groups, all libraries, and faults.",
            "Try",
        ),
    }
    renamed: ClassVar = {
        "inventory": _of_source("inventory"),
        "latency": _of_source("latency"),
        "points": _of_source("points"),
        "rejects": _of_source("rejects"),
        "summary": _of_source("inventory", "latency"),
    }

    def load(self, name: str) -> Any:
        """See `LazyGroup`; `whatif` has a class of its own."""
        if name != "whatif":
            return super().load(name)
        from fleetgauge.cli.fleet.whatif import WhatifCommand

        return self.lazy[name].load(name, WhatifCommand)


app = App(name="fleet", cls=_Commands, no_args_is_help=True)


@app.callback()
def fleet() -> None:
    """Analyse the fleet of clients: inventory, latency, points, tables, verdicts (extra: tables or spark).

    Tables and small landing zones are read at once; topics, large zones and those elsewhere need PySpark and Java 17,
    21 or 25.
    """


def main() -> None:
    """The entry point of `python -m fleetgauge.cli.fleet.app`."""
    app(prog_name="fleet")


if __name__ == "__main__":
    main()

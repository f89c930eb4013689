"""Types of exporter as an operator may write them: one that takes any keys, and two that repeat them in errors."""

from collections.abc import Mapping

from fleetgauge.exporters.console import ConsoleExporter, console_exporter
from fleetgauge.exporters.exporter import Exporter, Outcome
from fleetgauge.push_log.log import Batch


def any_keys(name: str, values: Mapping[str, object]) -> Exporter:
    return console_exporter(name, {})


def refuses(name: str, values: Mapping[str, object]) -> Exporter:
    raise RuntimeError(f"{name} cannot use {values}")


class Failing(ConsoleExporter):
    """Fails with every batch, and repeats its token."""

    token = ""

    def export(self, batch: Batch) -> Outcome:
        raise RuntimeError(f"the destination does not know {self.token}")


def fails(name: str, values: Mapping[str, object]) -> Exporter:
    exporter = Failing(name, console_exporter(name, {}).settings)
    exporter.token = str(values["token"])
    return exporter

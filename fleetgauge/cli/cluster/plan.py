"""`plan` and `apply` of all kinds of resources: signs, the question, and the report."""

from collections.abc import Sequence
from typing import Final

import typer

from fleetgauge.cluster.plan import Action, Change, K, Kind, Store, V, has_changes
from fleetgauge.terminal.table import wide_console

SIGNS: Final = {Action.ADD: "+", Action.CHANGE: "~", Action.DELETE: "-", Action.KEEP: " ", Action.LEAVE: " "}
STYLES: Final = {Action.ADD: "green", Action.CHANGE: "yellow", Action.DELETE: "red"}


def carry_out(
    kind: Kind[K, V], store: Store[K, V], changes: Sequence[Change[K, V]], *, yes: bool, quiet: bool = False
) -> None:
    """Asks, and makes the changes of a plan that was shown.

    Raises:
        typer.Abort: the answer is no.
    """
    if not has_changes(changes):
        return
    if not yes:
        typer.confirm("Apply?", abort=True, err=True)
    kind.apply(store, changes)
    if not quiet:
        wide_console().print("Applied.")

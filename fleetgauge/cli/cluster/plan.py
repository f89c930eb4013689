"""`plan` and `apply` of all kinds of resources: options, exit code, the question, and the report."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from fleetgauge.cluster.plan import Action, Change, K, Kind, Store, V, has_changes
from fleetgauge.terminal.options import Command
from fleetgauge.terminal.table import wide_console

EXIT_CHANGE: Final = 2
"""Of `plan`: there is a change."""
SIGNS: Final = {Action.ADD: "+", Action.CHANGE: "~", Action.DELETE: "-", Action.KEEP: " ", Action.LEAVE: " "}
STYLES: Final = {Action.ADD: "green", Action.CHANGE: "yellow", Action.DELETE: "red"}

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


class PlanCommand(Command):
    """Wrong options exit with 1, since 2 says that there is a change."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """The context, from the words of the command line."""
        try:
            return super().make_context(*arguments, **options)
        except Exception as error:
            if getattr(error, "exit_code", None) == EXIT_CHANGE:
                error.exit_code = 1  # type: ignore[attr-defined]  # a UsageError of Typer's own click
            raise


def end_plan(changes: Sequence[Change[K, V]]) -> None:
    """Ends `plan`.

    Raises:
        typer.Exit: there is a change.
    """
    if has_changes(changes):
        raise typer.Exit(EXIT_CHANGE)


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

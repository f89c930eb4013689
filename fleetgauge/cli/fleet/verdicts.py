"""`fleet verdicts` and `fleet rules`: the ranked list, and the figures by which it is made."""

import sys
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from fleetgauge.cli.fleet.options import (
    DEFAULT_TABLES,
    SELECTION,
    RuleFile,
    Since,
    StoreConf,
    Tables,
    needs_extra,
    now,
    parse_conf,
    time_option,
)
from fleetgauge.fleet.errors import WrongOptionError
from fleetgauge.terminal.options import TableOptions

EXIT_FOUND: Final = 4
"""With --fail-on: there is an open verdict of that severity or a worse one."""


FailOn = Literal["critical", "warning"]
"""Values of --fail-on."""


def verdicts(
    *,
    tables: Tables = DEFAULT_TABLES,
    since: Since = None,
    state: Annotated[
        Literal["open", "cleared"] | None,
        typer.Option(help="Only verdicts that are open, or that have cleared.", rich_help_panel=SELECTION),
    ] = None,
    principal: Annotated[
        str | None, typer.Option(help="Only subjects of this principal.", rich_help_panel=SELECTION)
    ] = None,
    shows_all: Annotated[
        bool, typer.Option("--all", "-a", help="List what a cause explains under it, in place of a count.")
    ] = False,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="List which verdicts can be given for which clients, and why not.")
    ] = False,
    fail_on: Annotated[
        FailOn | None, typer.Option("--fail-on", help="Exit with 4 if a listed open verdict is this severe, or more.")
    ] = None,
    answer: TableOptions,
    conf: StoreConf = None,
) -> None:
    """List the verdicts, best rank first: which clients and brokers are in trouble, who has to act, and what to change.

    `fleet run` makes verdicts with its other tables. A library that does not send the measures of a verdict is not
    judged: see `--coverage`.

    Examples:
        fleetgauge fleet verdicts --tables ./fleet --state open --fail-on critical
        fleetgauge fleet verdicts --tables ./fleet --since 24h --format json
    """
    with needs_extra("tables"):
        from fleetgauge.fleet.views.show_verdicts import VerdictsRequest, show_coverage, show_verdicts
    request = VerdictsRequest(
        tables=tables,
        since=time_option(since, now()),
        state=state,
        principal=principal,
        to=answer.to(),
        conf=parse_conf(conf),
        shows_all=shows_all,
    )
    if coverage:
        answer.print(show_coverage(request))
        return
    shown = show_verdicts(request)
    answer.print(shown.answer)
    raise typer.Exit(exit_code(fail_on, shown.severities))


def rules(rule_file: RuleFile = None) -> None:
    """Print the figures of every verdict as TOML: the defaults, or those of a rule file.

    Write them to a file, change figures, and name the file with --rules.

    Examples:
        fleetgauge fleet rules > rules.toml
        fleetgauge fleet rules --rules rules.toml
    """
    checked = load(rule_file)
    from fleetgauge.verdicts.rules import DEFAULTS, as_toml  # after load: it reports a missing extra

    sys.stdout.write(DEFAULTS.read_text(encoding="utf-8") if rule_file is None else as_toml(checked))


def exit_code(fail_on: FailOn | None, severities: set[str]) -> int:
    """Exit code required by --fail-on."""
    failing = {"critical": {"critical"}, "warning": {"critical", "warning"}}
    return EXIT_FOUND if fail_on is not None and failing[fail_on] & severities else 0


def load(rule_file: Path | None) -> Any:
    """The rules in a file, or the defaults.

    Raises:
        WrongOptionError: with one sentence on what is wrong with it.
    """
    with needs_extra("tables"):
        from fleetgauge.verdicts.errors import RulesError
        from fleetgauge.verdicts.rules import load_rules
    try:
        return load_rules(rule_file)
    except RulesError as error:
        raise WrongOptionError(str(error)) from error

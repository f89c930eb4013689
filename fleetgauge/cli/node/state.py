"""Changes by admin tools on a node, as tables of its configuration file."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fleetgauge.cli.options import ConfigOptions
from fleetgauge.terminal.text import printable

if TYPE_CHECKING:
    from fleetgauge.node.config import ServiceConfig


def print_changed(options: ConfigOptions, *, credentials: bool) -> None:
    """Prints the tables that admin tools changed, each whole, and names what a configuration cannot declare.

    Raises:
        ConfigError: this node has not run here.
    """
    from fleetgauge.cli.node.state_toml import StateToml  # imports every package
    from fleetgauge.node.config.load import check
    from fleetgauge.node.state.store import read_file
    from fleetgauge.node.state.topic import of_copy

    sourced = options.sources()
    config = check(sourced)
    path = _file(config)
    stored = of_copy(read_file(path))[0] if path.exists() else {}
    written = {key: str(raw.written) for key, raw in sourced.items() if raw.written is not None}
    declared = StateToml(config, written, stored, with_credentials=credentials)
    typer.echo(f"# What admin tools changed, by {_place(config, path)}")
    if not declared.tables and not declared.left_out:
        typer.echo("# Nothing.")
    for sentence in declared.left_out:
        typer.echo(f"# Left out: {printable(sentence)}")
        typer.echo(f"fleetgauge: left out: {printable(sentence)}", err=True)
    for table in declared.tables:
        typer.echo(f"\n{table}")


def _file(config: "ServiceConfig") -> Path:
    """The file with the state; of a node that was never changed there is none.

    Raises:
        ConfigError: this node has not run here.
    """
    from fleetgauge.base.errors import ConfigError
    from fleetgauge.node.config.push_logs import state_file
    from fleetgauge.node.data_dir import DataDirectory

    path = state_file(config, DataDirectory(config.log_dirs.absolute()))
    if not path.parent.is_dir():
        raise ConfigError("log.dirs", f"there is no data directory {path.parent}: name the node's with --config")
    if config.state_store == "kafka" and not path.exists():
        raise ConfigError(
            "state.store",
            f"this node has read nothing of topic {config.state_topic} yet: there is no copy of it, {path}; start the "
            "node, or run this where one has run",
        )
    return path


def _place(config: "ServiceConfig", path: Path) -> str:
    if config.state_store == "kafka":
        return f"{path}: this node's copy of topic {config.state_topic}, as it read it last"
    return str(path)

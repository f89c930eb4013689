"""Options that several commands share."""

import getpass
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fleetgauge.base.errors import ConfigError

if TYPE_CHECKING:
    from fleetgauge.node.config import ServiceConfig
    from fleetgauge.node.config.reader import ConfigReader
    from fleetgauge.node.data_dir import DataDirectory

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", envvar="FLEETGAUGE_CONFIG", help="TOML file with Kafka's own key names."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--override", metavar="KEY=VALUE", help="Set one key; overrides file and environment; repeatable."),
]


def read_config(config: Path | None, override: list[str] | None) -> "ServiceConfig":
    """Reads the configuration from file, `FLEETGAUGE_*` variables and overrides.

    Raises:
        ConfigError: a key or value is not allowed.
    """
    from fleetgauge.node.config import load_config  # imports every package: other commands start without it

    return load_config(config, environment=os.environ, overrides=override or ())


def config_reader(config: Path | None, override: list[str] | None) -> "ConfigReader":
    """A reader for a process that rereads its configuration."""
    from fleetgauge.node.config.reader import ConfigReader

    return ConfigReader(config, os.environ, override or ())


LogDirs = Annotated[
    Path | None, typer.Option("--log-dirs", "-d", help="The data directory; overrides log.dirs of the configuration.")
]
TableOrJson = Annotated[Literal["table", "json"], typer.Option("--format", "-f", help="Output format.")]
TableOrJsonLines = Annotated[
    Literal["table", "json"], typer.Option("--format", "-f", help="Output format; json: one object per line.")
]


def data_directory(config: Path | None, override: list[str] | None, log_dirs: Path | None) -> "DataDirectory":
    """The data directory that a command reads.

    Raises:
        ConfigError: the configuration cannot be read, or the directory does not exist.
    """
    from fleetgauge.node.data_dir import DataDirectory  # structlog, which `serve` imports in its own way

    root = log_dirs if log_dirs is not None else read_config(config, override).log_dirs
    if not root.is_dir():
        raise ConfigError(
            "log.dirs", f"there is no data directory {root.absolute()}; name one with --log-dirs or --config"
        )
    return DataDirectory(root)


def audit_command(
    config: Path | None, override: list[str] | None, log_dirs: Path | None, event: str, **fields: object
) -> None:
    """Records in the audit log of the data directory that a command changed something.

    Raises:
        ConfigError: the configuration cannot be read.
    """
    from fleetgauge.node import audit

    named = [f"log.dirs={log_dirs}"] if log_dirs is not None else []
    found = read_config(config, [*(override or ()), *named])
    audit.configure(found.audit_settings(), found.secrets())
    audit.record(event, f"os:{getpass.getuser()}", "", **fields)
    audit.close()

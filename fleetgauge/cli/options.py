"""Options that several commands share."""

import getpass
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import typer

from fleetgauge.base.errors import ConfigError

if TYPE_CHECKING:
    from fleetgauge.node.config import ServiceConfig
    from fleetgauge.node.config.reader import ConfigReader
    from fleetgauge.node.config.sources import Sourced
    from fleetgauge.node.data_dir import DataDirectory

CONFIGURATION: Final = "Configuration"
CLUSTER: Final = "Cluster"
"""Panels of options."""

CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="Properties file with client settings, as Kafka's own tools take it: TLS, SASL.",
        rich_help_panel=CLUSTER,
    ),
]


@dataclass(frozen=True, kw_only=True)
class ConfigOptions:
    """The configuration of a process: a file, `FLEETGAUGE_*` variables, and overrides."""

    panel: ClassVar = CONFIGURATION

    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", envvar="FLEETGAUGE_CONFIG", help="TOML file with Kafka's own key names."),
    ] = None
    override: Annotated[
        list[str] | None,
        typer.Option(
            "--override", metavar="KEY=VALUE", help="Set one key; overrides file and environment; may be repeated."
        ),
    ] = None

    def read(self, *more: str) -> "ServiceConfig":
        """Reads and checks the configuration; `more` overrides it, as `KEY=VALUE`.

        Raises:
            ConfigError: a key or value is not allowed.
        """
        from fleetgauge.node.config import load_config  # imports every package: other commands start without it

        return load_config(self.config, environment=os.environ, overrides=[*(self.override or ()), *more])

    def sources(self) -> "dict[str, Sourced]":
        """Reads the values and their origins, before they are checked.

        Raises:
            ConfigError: a source cannot be read.
        """
        from fleetgauge.node.config.load import read_sources

        return read_sources(self.config, environment=os.environ, overrides=self.override or ())

    def reader(self) -> "ConfigReader":
        """A reader for a process that rereads its configuration."""
        from fleetgauge.node.config.reader import ConfigReader

        return ConfigReader(self.config, os.environ, self.override or ())


@dataclass(frozen=True, kw_only=True)
class DataOptions(ConfigOptions):
    """The data directory of a process, by its configuration or by its path."""

    log_dirs: Annotated[
        Path | None,
        typer.Option("--log-dirs", "-d", help="The data directory; overrides log.dirs of the configuration."),
    ] = None

    def directory(self) -> "DataDirectory":
        """The data directory that a command reads.

        Raises:
            ConfigError: the configuration cannot be read, or the directory does not exist.
        """
        from fleetgauge.node.data_dir import DataDirectory  # structlog, which `serve` imports in its own way

        root = self.log_dirs if self.log_dirs is not None else self.read().log_dirs
        if not root.is_dir():
            near = "" if root.is_absolute() else " (a relative path counts from the working directory)"
            raise ConfigError(
                "log.dirs", f"there is no data directory {root.absolute()}{near}; name one with --log-dirs or --config"
            )
        return DataDirectory(root)

    def audit(self, event: str, **fields: object) -> None:
        """Records in the audit log of the data directory that a command changed something.

        Raises:
            ConfigError: the configuration cannot be read.
        """
        from fleetgauge.node import audit

        config = self.read(*(() if self.log_dirs is None else (f"log.dirs={self.log_dirs}",)))
        audit.configure(config.audit_settings(), config.secrets())
        audit.record(event, f"os:{getpass.getuser()}", "", **fields)
        audit.close()

"""Reads the configuration of a running process: at its start, and again at each SIGHUP."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from fleetgauge.base.errors import ConfigError
from fleetgauge.base.redaction import secrets_in, without_credentials
from fleetgauge.node.config.load import check, join_sources
from fleetgauge.node.config.model import ServiceConfig
from fleetgauge.node.config.security import USERS_PREFIX
from fleetgauge.node.config.sources import Sourced, from_toml
from fleetgauge.node.private_files import is_open_to_others

log = structlog.get_logger(__name__)


class ConfigReader:
    """Reads one configuration repeatedly.

    Args:
        file: a TOML file, or None for the defaults.
        environment: the process environment; variables `FLEETGAUGE_*` are read.
        overrides: texts `key=value`.
    """

    def __init__(self, file: Path | None, environment: Mapping[str, str], overrides: Sequence[str]) -> None:
        self._file = file
        self._environment = environment
        self._overrides = overrides
        self._had_keys = False
        self._exposed: list[str] = []

    def read(self) -> ServiceConfig:
        """The current configuration. An empty file means the defaults, unless it had keys before.

        Raises:
            ConfigError: as `load_config`; or the file had keys and is empty now.
        """
        in_file = from_toml(self._file) if self._file is not None else {}
        if self._had_keys and not in_file:
            raise ConfigError(
                "",
                f"{self._file} is empty, which would remove every subscription and user; perhaps it is still being "
                "written. Restart the node to apply the defaults",
            )
        config = check(join_sources(in_file, environment=self._environment, overrides=self._overrides))
        self._had_keys = bool(in_file)
        self._exposed = self._exposed_secrets(in_file)
        return config

    def warn_of_exposed_secrets(self) -> None:
        """Logs a warning if the configuration file has secrets and other users may read it."""
        if self._exposed:
            log.warning(
                f"other users can read the configuration file, which contains secrets: chmod 0600 {self._file}",
                keys=self._exposed,
            )

    def _exposed_secrets(self, in_file: Mapping[str, Sourced]) -> list[str]:
        try:
            if self._file is None or not is_open_to_others(self._file):
                return []
        except OSError:  # the file was replaced just now
            return []
        return [key for key, raw in in_file.items() if _is_secret(key, raw.value)]


def _is_secret(key: str, value: object) -> bool:
    """True for a secret; False for a reference `${...}` to one."""
    text = str(value)
    secrets = [text] if key.startswith(USERS_PREFIX) or without_credentials(text) != text else secrets_in(key, value)
    return any(each and not each.startswith("${") for each in secrets)

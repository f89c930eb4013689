"""The job of the console, made from the configuration."""

from pathlib import Path
from typing import Any, Final

from fleetgauge.base.errors import ConfigError
from fleetgauge.http.users import MIN_TOKEN_CHARACTERS
from fleetgauge.node.config.model import ServiceConfig
from fleetgauge.node.config.offsets import deadline_settings
from fleetgauge.node.config.push_logs import topic_settings

_KEY: Final = "console.operate.token.file"
_RULES_KEY: Final = "console.rules.file"
_MAX_TOKEN_BYTES: Final = 4096


def console_job(config: ServiceConfig, form: str) -> dict[str, Any]:
    """Settings for the console's process.

    Args:
        config: the checked configuration.
        form: `serve`, `export` or `console`.

    Raises:
        ConfigError: the token cannot be read or is too short, the rule file is not there, or a file of client settings
            cannot be used.
    """
    return {
        "form": form,
        "log_dirs": config.log_dirs.absolute(),
        "topic": topic_settings(config) if config.push_log == "kafka" else None,
        "clients_max": config.console_clients_max,
        "tables": config.console_tables or None,
        "rules": _rules(config.console_rules_file),
        "decode_cores": config.console_decode_cores,
        "cluster": deadline_settings(config, is_node=form == "serve"),
        "token": operator_token(config),
    }


def _rules(path: Path | None) -> Path | None:
    """The rule file; what is wrong in it is a notice of the console."""
    if path is None:
        return None
    if not path.is_file():
        raise ConfigError(_RULES_KEY, f"there is no file {path}; create one with: fleetgauge fleet rules > rules.toml")
    return path.absolute()


def operator_token(config: ServiceConfig) -> str | None:
    """The token in `console.operate.token.file`; None without that key, or without the console.

    Raises:
        ConfigError: it cannot be read or is too short.
    """
    path = config.console_operate_token_file if config.console_enabled else None
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            token = file.read(_MAX_TOKEN_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ConfigError(_KEY, f"cannot read {path}: {reason}") from error
    if len(token) < MIN_TOKEN_CHARACTERS:
        raise ConfigError(
            _KEY, f"{path} has fewer than {MIN_TOKEN_CHARACTERS} characters; create a token with: openssl rand -hex 32"
        )
    return token

"""`fleetgauge config`: every key with its value in force, and what it means."""

import json
import re

import typer

from fleetgauge.cli.options import ConfigFile, Overrides, read_config


def show_config(config: ConfigFile = None, override: Overrides = None) -> None:
    """Check a configuration and print it whole: every key, its value in force and its meaning, as TOML."""
    from exporters.options import without_credentials
    from fleetgauge.config.model import TABLES  # with every room: only once it is needed
    from fleetgauge.config.security import SECRETS, ListenerKeys

    checked = read_config(config, override)
    fields = type(checked).model_fields
    keys = [field.alias or name for name, field in fields.items()]
    for name, field in sorted(fields.items(), key=lambda item: item[0] in ListenerKeys.model_fields):
        if name in TABLES:
            continue
        typer.echo(f"# {field.description}")
        key = field.alias or name
        # TOML takes a key that is also the prefix of another in quotes only.
        shown = f'"{key}"' if any(other.startswith(f"{key}.") for other in keys) else key
        value = getattr(checked, name)
        typer.echo(f"{shown} = {_toml('[hidden]' if value and key in SECRETS else value)}")
    for key, value in checked.listener_name.items():
        hides = any(key.endswith(f".{secret}") for secret in SECRETS)
        typer.echo(f"listener.name.{key} = {_toml('[hidden]' if hides else value)}")
    of_others = {
        **{f"push.log.kafka.client.{key}": value for key, value in checked.push_log_kafka_client.items()},
        **{f"client.quota.callback.config.{key}": value for key, value in checked.client_quota_callback_config.items()},
    }
    for key, value in of_others.items():
        typer.echo(f"{key} = {_toml('[hidden]' if _is_secret(key) else value)}")
    for user, credentials in checked.sasl_users.items():
        typer.echo(f"\n[sasl.users.{_toml(user)}]")
        for key in credentials:
            typer.echo(f"{key} = {_toml('[hidden]')}")
    for table, entries in (
        ("exporters", checked.exporters),
        ("client-metrics", checked.client_metrics),
        ("client-guard", checked.client_guard),
        ("quotas", checked.quotas),
    ):
        for entry, properties in entries.items():
            typer.echo(f"\n[{table}.{_toml(entry)}]")
            for key, value in properties.items():
                told = without_credentials(value) if isinstance(value, str) else value
                typer.echo(f"{_toml_key(key)} = {_toml('[hidden]' if _is_secret(key) else told)}")


def _is_secret(key: str) -> bool:
    return any(word in key for word in ("password", "secret", "jaas", "private", ".key", "token", "headers"))


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, tuple | list):
        value = ",".join(str(item) for item in value)
    return json.dumps(str(value), ensure_ascii=False)  # TOML's basic strings are JSON's


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_.-]+", key) else _toml(key)

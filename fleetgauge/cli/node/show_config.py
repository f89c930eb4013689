"""`fleetgauge config`: every key with its current value and its meaning, or what admin tools changed."""

import ast
import inspect
import itertools
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from fleetgauge.base.errors import ConfigError
from fleetgauge.base.redaction import HIDDEN, shown
from fleetgauge.cli.node.toml_text import toml_list, toml_value
from fleetgauge.cli.options import ConfigOptions

if TYPE_CHECKING:
    from fleetgauge.node.config import ServiceConfig


def config(
    *,
    changed: Annotated[
        bool, typer.Option("--changed", help="Print what admin tools changed on the node, for its configuration file.")
    ] = False,
    credentials: Annotated[
        bool,
        typer.Option("--credentials", help="With --changed: print the salted hashes of users too. They are secrets."),
    ] = False,
    options: ConfigOptions,
) -> None:
    """Print a configuration as TOML: every key with its current value and its meaning.

    The configuration is checked. Secrets are hidden; a reference to one, ${file:/path} or ${env:NAME}, is shown as it
    is written. With --changed: the tables of subscriptions, quotas, users and ACLs that admin tools changed, whether
    the node runs or not. Each is whole, with the file's values that no tool changed: put it in place of the file's
    table of that name. What a configuration cannot declare is named.

    Examples:
        fleetgauge config --config fleetgauge.toml
        fleetgauge config --changed --config fleetgauge.toml > changed.toml
    """
    if changed:
        from fleetgauge.cli.node.state import print_changed

        print_changed(options, credentials=credentials)
        return
    if credentials:
        raise ConfigError("", "--credentials is for --changed: give that too")
    from fleetgauge.node.config.load import check  # imports every package

    sourced = options.sources()
    written = {key: raw.written for key, raw in sourced.items() if raw.written is not None}
    for line in _lines(check(sourced), written):
        typer.echo(line)


def _lines(checked: "ServiceConfig", written: Mapping[str, object]) -> Iterator[str]:
    from fleetgauge.exporters.registry import EXPORTER_TYPES
    from fleetgauge.exporters.self_metrics import SELF_METRICS
    from fleetgauge.node.config.http import HttpKeys
    from fleetgauge.node.config.model import TABLES
    from fleetgauge.node.config.security import ListenerKeys

    fields = type(checked).model_fields
    meanings = key_meanings(ListenerKeys) | key_meanings(HttpKeys) | key_meanings(type(checked))
    keys = [field.alias or name for name, field in fields.items()]
    for name, field in sorted(fields.items(), key=lambda item: item[0] in ListenerKeys.model_fields):
        if name in TABLES:
            continue
        key = field.alias or name
        # TOML needs quotes around a key that is also the prefix of another.
        quoted = f'"{key}"' if any(other.startswith(f"{key}.") for other in keys) else key
        yield f"# {meanings[name]}"
        yield f"{quoted} = {toml_value(written.get(key) or shown(key, getattr(checked, name)))}"
    for prefix, table in (
        ("client.id.patterns.", {toml_value(name): pattern for name, pattern in checked.client_id_patterns.items()}),
        ("listener.name.", checked.listener_name),
        ("push.log.kafka.client.", checked.push_log_kafka_client),
        ("metrics.context.", checked.metrics_context),
        # The configuration of a custom class may contain anything, also secrets.
        ("client.quota.callback.config.", dict.fromkeys(checked.client_quota_callback_config, HIDDEN)),
    ):
        for key, value in table.items():
            yield f"{prefix}{key} = {toml_value(written.get(prefix + key) or shown(prefix + key, value))}"
    for user, credentials in checked.sasl_users.items():
        yield f"\n[sasl.users.{toml_value(user)}]"
        for key in credentials:
            yield f"{key} = {toml_value(written.get(f'sasl.users.{user}.{key}') or HIDDEN)}"
    yield from _acls(checked)
    for name, table in (
        ("exporters", checked.exporters),
        ("client-metrics", checked.client_metrics),
        ("client-guard", checked.client_guard),
        ("quotas", checked.quotas),
    ):
        for entry, properties in table.items():
            yield f"\n[{name}.{toml_value(entry)}]"
            is_known = name != "exporters" or properties["type"] in (*EXPORTER_TYPES, SELF_METRICS)
            for key, value in properties.items():
                text = shown(key, value) if is_known or key == "type" else HIDDEN
                yield f"{_toml_key(key)} = {toml_value(written.get(f'{name}.{entry}.{key}') or text)}"


def _acls(checked: "ServiceConfig") -> Iterator[str]:
    for name, keys in checked.acls.items():
        yield f"\n[acls.{toml_value(name)}]"
        for key, value in keys.items():
            yield f"{key} = {toml_list(value) if isinstance(value, list) else toml_value(value)}"


def key_meanings(keys: type) -> dict[str, str]:
    """The meaning of each key: the docstrings of the fields, which Python does not keep.

    Not by pydantic's `use_attribute_docstrings`, which would read the source at the start of every process.
    """
    (definition,) = ast.parse(inspect.getsource(keys)).body
    assert isinstance(definition, ast.ClassDef)
    meanings = {}
    for field, below in itertools.pairwise(definition.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                meanings[name] = " ".join(text.split())
    return meanings


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_.-]+", key) else toml_value(key)

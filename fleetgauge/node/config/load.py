"""Merges the sources of configuration and checks the result. Every `ServiceConfig` is made here."""

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from fleetgauge.base.errors import ConfigError, InvalidConfigError
from fleetgauge.base.kafka_text import kafka_text
from fleetgauge.base.redaction import hide, secrets_in, without_credentials
from fleetgauge.base.suggestions import did_you_mean, nearest
from fleetgauge.cluster.quotas.limits import QUOTAS_PREFIX, read_limits
from fleetgauge.exporters.options import ExporterConfigError
from fleetgauge.node.config.authorization import (
    ACLS_PREFIX,
    CLIENT_IDS_PREFIX,
    read_acls,
    read_client_id_pattern,
    read_key,
)
from fleetgauge.node.config.http import check_http_listeners
from fleetgauge.node.config.model import TABLES, ServiceConfig
from fleetgauge.node.config.offsets import deadline_settings, offsets_settings
from fleetgauge.node.config.push_logs import topic_settings
from fleetgauge.node.config.references import resolve
from fleetgauge.node.config.security import LISTENER_PREFIX, NOT_READ, USERS_PREFIX, first_problem, shown_in_error
from fleetgauge.node.config.sizes import Machine, sized
from fleetgauge.node.config.sources import Sourced, from_environment, from_overrides, from_toml
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.push_log.kafka_topic.clients import check_clients
from fleetgauge.push_log.log import PushLogError
from fleetgauge.quotas import TELEMETRY_QUOTA_KEYS
from fleetgauge.telemetry.subscriptions.known_clients import guard_rules
from fleetgauge.telemetry.subscriptions.overrides import DEFAULT_NAME, DEFAULT_SUBSCRIPTION
from fleetgauge.telemetry.subscriptions.resources import check_subscription
from fleetgauge.wire.sasl.credentials import ScramMechanism
from fleetgauge.wire.security_protocol import SecurityProtocol

SUBSCRIPTION_KEYS = ("metrics", "interval.ms", "match")
_SUBSCRIPTION = "client-metrics."
_DEFAULT_SUBSCRIPTION = f"{_SUBSCRIPTION}{DEFAULT_NAME}."
_GATEWAY_BROKER = "gateway.broker"


def load_config(
    file: Path | None = None, *, environment: Mapping[str, str] | None = None, overrides: Iterable[str] = ()
) -> ServiceConfig:
    """Reads and checks a configuration; later sources win: file, then environment, then overrides.

    Args:
        file: a TOML file, or None for the defaults.
        environment: the process environment; variables `FLEETGAUGE_*` are read.
        overrides: texts `key=value`.

    Raises:
        ConfigError: a key is unknown, a value is not allowed, or the file cannot be read.
    """
    return check(read_sources(file, environment=environment or {}, overrides=overrides))


def read_sources(
    file: Path | None, *, environment: Mapping[str, str], overrides: Iterable[str] = ()
) -> dict[str, Sourced]:
    """Every key that is set, with references to secrets resolved; arguments and errors as `load_config`."""
    return join_sources(from_toml(file) if file is not None else {}, environment=environment, overrides=overrides)


def join_sources(
    in_file: Mapping[str, Sourced], *, environment: Mapping[str, str], overrides: Iterable[str]
) -> dict[str, Sourced]:
    """Like `read_sources`, for a file that is already read."""
    elsewhere = from_environment(environment) | from_overrides(overrides)
    return resolve({**_assumed_subscription(in_file, elsewhere), **in_file, **elsewhere}, environment)


def _assumed_subscription(in_file: Mapping[str, Sourced], elsewhere: Mapping[str, Sourced]) -> dict[str, Sourced]:
    """The default subscription, unless another one is configured; an override of one of its keys keeps the others.

    It is for trying `fleetgauge serve` out. A gateway, and a node that writes to a topic, stand before production
    traffic, and have none, as a broker has.
    """
    broker, log = (elsewhere.get(key) or in_file.get(key) for key in (_GATEWAY_BROKER, "push.log.type"))
    is_for_trying = not (broker and broker.value) and not (log and log.value == "kafka")
    others = [key for key in elsewhere if not key.startswith(_DEFAULT_SUBSCRIPTION)]
    if not is_for_trying or any(key.startswith(_SUBSCRIPTION) for key in (*in_file, *others)):
        return {}
    return {_DEFAULT_SUBSCRIPTION + key: Sourced(value, "the default") for key, value in DEFAULT_SUBSCRIPTION.items()}


def check(sourced: Mapping[str, Sourced]) -> ServiceConfig:
    """Checks the values and returns the configuration.

    Raises:
        ConfigError: as `load_config`; its text holds no secret.
    """
    try:
        return _check(sourced)
    except ConfigError as error:
        secrets = (text for key, raw in sourced.items() for text in (*raw.secrets, *secrets_in(key, raw.value)))
        problem = hide(without_credentials(error.problem), secrets)
        raise ConfigError(error.key, problem, source=error.source) from None


def _check(sourced: Mapping[str, Sourced]) -> ServiceConfig:
    config = sized(_validate(sourced), Machine.this())
    _check_subscriptions(config, sourced)
    _check_quotas(config)
    _check_acls(config, sourced)
    _check_exporters(config, sourced)
    _check_topic(config)
    _check_gateway(config)
    _check_security(config, sourced)
    check_http_listeners(config.http_listeners, config.http_access())
    offsets_settings(config)  # reads its file
    deadline_settings(config, is_node=False)  # the same
    return config


def known_keys() -> tuple[str, ...]:
    """Every key outside of tables such as `exporters` and `client-metrics`, in the order of the model."""
    return tuple(field.alias or name for name, field in ServiceConfig.model_fields.items() if name not in TABLES)


def _validate(sourced: Mapping[str, Sourced]) -> ServiceConfig:
    values: dict[str, Any] = {prefix.removesuffix("."): {} for prefix in _TABLES}
    known = set(known_keys())
    for key, raw in sourced.items():
        if key in known:
            values[key] = raw.value
            continue
        prefix = next((each for each in _TABLES if key.startswith(each) and key != each), None)
        if prefix is None:
            suggestion = did_you_mean(nearest(key, [*known, *_NAMED_TABLES]))
            unknown = f"is not a configuration key{suggestion or '; the keys are listed by fleetgauge config'}"
            hint = NOT_READ.get(key) or unknown
            raise ConfigError(key, hint, source=raw.source)
        table = values[prefix.removesuffix(".")]
        try:
            *path, last, value = _TABLES[prefix](key.removeprefix(prefix), raw.value)
        except (ValueError, InvalidConfigError) as error:
            raise ConfigError(key, str(error), source=raw.source) from error
        for name in path:
            table = table.setdefault(name, {})
        table[last] = value
    if not values["exporters"] and values.get("push.log.type") != "kafka":
        # Not with a topic: each of the nodes that share it would fill a landing zone with a part of its pushes.
        values["exporters"] = {"landing": {"type": "landing"}}
    values["referenced.secrets"] = {
        key: raw.secrets for key, raw in sourced.items() if raw.secrets and any(secrets_in(key, raw.value))
    }
    try:
        config = ServiceConfig.model_validate(values)
    except ValidationError as error:
        raise _first_problem(error, sourced) from error
    for keys in config.exporters.values():
        keys.update({key: value for key, value in _node_defaults(config, keys.get("type")).items() if key not in keys})
    return config


def _node_defaults(config: ServiceConfig, exporter_type: object) -> dict[str, Any]:
    """Keys that an exporter of this type has from the node, unless its own table has them."""
    if exporter_type == "landing":
        return {"path": str(DataDirectory(config.log_dirs.absolute()).landing)}
    return config.page_keys() if exporter_type == "prometheus" else {}


def _exporter(key: str, value: object) -> tuple[object, ...]:
    name, _, inner = key.partition(".")
    if not inner:
        raise ValueError("an exporter is a table, [exporters.<name>], with a type and its keys")
    return name, inner, value


def _subscription(key: str, value: object) -> tuple[object, ...]:
    for inner in SUBSCRIPTION_KEYS:
        name = key.removesuffix(f".{inner}")
        if key.endswith(f".{inner}") and name:
            return name, inner, kafka_text(value)
    raise ValueError(f"a subscription [client-metrics.<name>] has the keys {', '.join(SUBSCRIPTION_KEYS)}")


def _guard_rule(key: str, value: object) -> tuple[object, ...]:
    name, _, inner = key.rpartition(".")
    if not name:
        raise ValueError("a rule of the client guard is a table, [client-guard.<name>], with its keys")
    return name, inner, value


def _quota(key: str, value: object) -> tuple[object, ...]:
    name, _, inner = key.rpartition(".")
    if not name:
        raise ValueError('quotas are tables by entity, for example [quotas."users/alice"], with their limits')
    (limit,) = read_limits({name: {inner: value}}).values()
    return name, inner, limit


def _user(key: str, value: object) -> tuple[object, ...]:
    mechanisms = [mechanism.value.lower() for mechanism in ScramMechanism]
    for mechanism in mechanisms:
        name = key.removesuffix(f".{mechanism}")
        if key.endswith(f".{mechanism}") and name:
            return name, mechanism, kafka_text(value)
    raise ValueError(
        f"a user [sasl.users.<name>] has the keys {', '.join(mechanisms)}, made by fleetgauge credentials; no password "
        "is kept"
    )


_TABLES: Final[dict[str, Callable[[str, object], tuple[object, ...]]]] = {
    "exporters.": _exporter,
    _SUBSCRIPTION: _subscription,
    "client-guard.": _guard_rule,
    "push.log.kafka.client.": lambda key, value: (key, kafka_text(value)),
    "client.quota.callback.config.": lambda key, value: (key, kafka_text(value)),
    "metrics.context.": lambda key, value: (key, kafka_text(value)),
    LISTENER_PREFIX: lambda key, value: (key, value),
    USERS_PREFIX: _user,
    QUOTAS_PREFIX: _quota,
    ACLS_PREFIX: read_key,
    CLIENT_IDS_PREFIX: read_client_id_pattern,
}
"""Prefix of a table's keys -> reads one of them, without the prefix: its path in the table, and its value; raises
ValueError or InvalidConfigError."""


_NAMED_TABLES: Final = (
    "[exporters.<name>]",
    "[client-metrics.<name>]",
    "[client-guard.<name>]",
    "[acls.<name>]",
    "[client.id.patterns]",
    "[sasl.users.<name>]",
    '[quotas."<entity>"]',
)


def _first_problem(error: ValidationError, sourced: Mapping[str, Sourced]) -> ConfigError:
    key, message = first_problem(error)
    raw = sourced.get(key)
    if raw is None:
        return ConfigError(key, message)
    written = shown_in_error(key, raw.value if raw.written is None else raw.written)
    return ConfigError(key, f"{written} is not allowed: {message}", source=raw.source)


def _check_subscriptions(config: ServiceConfig, sourced: Mapping[str, Sourced]) -> None:
    for name, properties in config.client_metrics.items():
        with _problems_of("client-metrics", name, sourced):
            check_subscription(name, properties)
    for name, keys in config.client_guard.items():
        with _problems_of("client-guard", name, sourced):
            guard_rules({name: keys})


@contextmanager
def _problems_of(table: str, name: str, sourced: Mapping[str, Sourced]) -> Iterator[None]:
    """Turns an `InvalidConfigError` into a `ConfigError` that names the table's entry and its source."""
    try:
        yield
    except InvalidConfigError as error:
        raise ConfigError(f"{table}.{name}", str(error), source=_source_of(table, name, sourced)) from error


def _check_quotas(config: ServiceConfig) -> None:
    try:
        limits = read_limits(config.quotas)  # all together: each limit was checked alone with its key
    except InvalidConfigError as error:
        raise ConfigError("quotas", str(error)) from error
    for _, key in limits:
        # A client may get its subscription from one worker and push to another. Each worker would set its own interval,
        # and reject the other's subscription id again and again.
        if key in TELEMETRY_QUOTA_KEYS and config.workers > 1:
            raise ConfigError(
                "quotas", f"{key} needs workers=1, and workers is {config.workers}: leave one of them out"
            )


def _check_acls(config: ServiceConfig, sourced: Mapping[str, Sourced]) -> None:
    for name, keys in config.acls.items():
        with _problems_of("acls", name, sourced):
            read_acls({name: keys})


def _check_exporters(config: ServiceConfig, sourced: Mapping[str, Sourced]) -> None:
    # Imported here: a worker gets a checked configuration, and must not load pyarrow and gRPC for it.
    from fleetgauge.exporters.registry import check_exporter

    for name, keys in config.exporters.items():
        try:
            check_exporter(name, keys)  # connects to nothing yet
        except ExporterConfigError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001  # a custom type may raise anything
            at = traceback.extract_tb(error.__traceback__)[-1]
            problem = (
                f"the factory of type {keys.get('type')} failed: {type(error).__name__}: {error} "
                f"({at.filename}, line {at.lineno})"
            )
        else:
            _check_loop(config, name, keys)
            continue
        raise ConfigError(f"exporters.{name}", problem, source=_source_of("exporters", name, sourced))


def _check_loop(config: ServiceConfig, name: str, keys: Mapping[str, Any]) -> None:
    """Refuses an exporter to the push log's own topic: its pushes would be read and delivered again without end."""
    if config.push_log != "kafka" or keys["type"] != "kafka_topic" or keys["topic"] != config.push_log_kafka_topic:
        return
    named = keys["bootstrap.servers"]
    servers = {each.strip() for each in (named.split(",") if isinstance(named, str) else named)}
    if servers & set(config.push_log_kafka_bootstrap_servers):
        raise ConfigError(
            f"exporters.{name}.topic",
            f"is {keys['topic']}, which is the push log: every delivered push would be read and delivered again",
        )


def _check_topic(config: ServiceConfig) -> None:
    if config.push_log != "kafka" and config.state_store != "kafka":
        return
    try:
        check_clients(topic_settings(config))
    except PushLogError as error:
        raise ConfigError("push.log.type" if config.push_log == "kafka" else "state.store", str(error)) from error


def _check_gateway(config: ServiceConfig) -> None:
    if not config.gateway_broker:
        return
    passing = config.passing_listener_names()
    if not passing:
        raise ConfigError(
            "admin.listeners",
            "names every listener, and a gateway passes nothing on these: add a listener for clients to listeners",
        )
    login = config.gateway_login()
    for name, protocol in config.security_protocols().items():
        if name in passing:
            _check_sasl_of_gateway(config, name, protocol, has_login=login is not None)
        if config.gateway_brokers and name in passing and not protocol.has_tls:
            raise ConfigError(
                "gateway.brokers",
                f"tells brokers apart by the server name of TLS, and listener {name} has no TLS: use SSL",
            )
    config.gateway_server_names()


def _check_sasl_of_gateway(config: ServiceConfig, name: str, protocol: SecurityProtocol, *, has_login: bool) -> None:
    if protocol.has_sasl and config.gateway_security_protocol.has_sasl and not has_login:
        instead = "SSL" if protocol.has_tls else "PLAINTEXT"
        raise ConfigError(
            "listeners",
            f"has a listener with {protocol}, but a gateway passes SASL to the broker: use {instead} here; or set "
            "gateway.sasl.username, the gateway's own user at the broker, and SASL ends here",
        )
    if has_login and not protocol.has_sasl:
        keys = config.security_keys().by_listener[name]
        if not protocol.has_tls or keys.ssl_client_auth != "required":
            raise ConfigError(
                "gateway.sasl.username",
                f"gives its rights at the broker to everyone who reaches listener {name}, which is {protocol}: use "
                "SASL_SSL or SASL_PLAINTEXT there, or SSL with ssl.client.auth=required",
            )


def _check_security(config: ServiceConfig, sourced: Mapping[str, Sourced]) -> None:
    try:
        config.security_keys()  # reads no certificates: the listener does
    except ConfigError as error:
        raw = sourced.get(error.key)
        raise ConfigError(error.key, error.problem, source=raw.source if raw else "") from error


def _source_of(table: str, name: str, sourced: Mapping[str, Sourced]) -> str:
    prefix = f"{table}.{name}."
    return next((raw.source for key, raw in sourced.items() if key.startswith(prefix)), "")

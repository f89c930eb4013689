"""Joins the sources of configuration and checks the whole; the only way to a `ServiceConfig`."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from base.errors import InvalidConfigError
from base.redaction import hide, is_secret, secrets_in, shown, without_credentials
from exporters.options import ExporterConfigError
from fleetgauge.config.model import TABLES, ServiceConfig
from fleetgauge.config.push_logs import topic_settings
from fleetgauge.config.quotas import QUOTAS_PREFIX, read_limits
from fleetgauge.config.references import resolve
from fleetgauge.config.security import LISTENER_PREFIX, NOT_READ, USERS_PREFIX
from fleetgauge.config.sizes import Machine, sized
from fleetgauge.config.sources import Sourced, from_environment, from_overrides, from_toml
from fleetgauge.data_dir import DataDirectory
from fleetgauge.errors import ConfigError
from push_log.kafka_topic.clients import check_clients
from push_log.log import PushLogError
from quotas import TELEMETRY_QUOTA_KEYS
from telemetry.catalogue.known_clients import guard_rules
from telemetry.subscriptions.resources import check_subscription
from wire.sasl.credentials import ScramMechanism

SUBSCRIPTION_KEYS = ("metrics", "interval.ms", "match")
DEFAULT_SUBSCRIPTION = {"metrics": "*", "interval.ms": "60000"}
"""What a node without any `[client-metrics.<name>]` in its file asks of every client, as the subscription `default`."""

_SUBSCRIPTION = "client-metrics."
_DEFAULT_SUBSCRIPTION = f"{_SUBSCRIPTION}default."

_KAFKA_CLIENT = "push.log.kafka.client."
_QUOTA_CALLBACK = "client.quota.callback.config."


def load_config(
    file: Path | None = None, *, environment: Mapping[str, str] | None = None, overrides: Iterable[str] = ()
) -> ServiceConfig:
    """Reads and checks a configuration; later sources win: file, then environment, then overrides.

    Args:
        file: a TOML file, or None for the defaults.
        environment: the process environment, of which `FLEETGAUGE_*` is read.
        overrides: texts `key=value`.

    Raises:
        ConfigError: a key is unknown, a value is not allowed, or the file cannot be read.
    """
    return check(read_sources(file, environment=environment or {}, overrides=overrides))


def read_sources(
    file: Path | None, *, environment: Mapping[str, str], overrides: Iterable[str] = ()
) -> dict[str, Sourced]:
    """Every key that is set, with its value, references to secrets resolved; arguments and errors as `load_config`."""
    return join_sources(from_toml(file) if file is not None else {}, environment=environment, overrides=overrides)


def join_sources(
    in_file: Mapping[str, Sourced], *, environment: Mapping[str, str], overrides: Iterable[str]
) -> dict[str, Sourced]:
    """As `read_sources`, of a file that was read before."""
    elsewhere = from_environment(environment) | from_overrides(overrides)
    return resolve({**_assumed_subscription(in_file, elsewhere), **in_file, **elsewhere}, environment)


def _assumed_subscription(in_file: Mapping[str, Sourced], elsewhere: Mapping[str, Sourced]) -> dict[str, Sourced]:
    """The default subscription, of which an override of one key leaves the others; nothing if there is another."""
    others = [key for key in elsewhere if not key.startswith(_DEFAULT_SUBSCRIPTION)]
    if any(key.startswith(_SUBSCRIPTION) for key in (*in_file, *others)):
        return {}
    return {_DEFAULT_SUBSCRIPTION + key: Sourced(value, "the default") for key, value in DEFAULT_SUBSCRIPTION.items()}


def check(sourced: Mapping[str, Sourced]) -> ServiceConfig:
    """The configuration that the values make.

    Raises:
        ConfigError: as `load_config`; no secret is in its text, whichever part of the program wrote it.
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
    _check_guard(config, sourced)
    _check_quotas(config)
    _check_exporters(config, sourced)
    _check_topic(config)
    _check_security(config, sourced)
    return config


def known_keys() -> tuple[str, ...]:
    """Every plain key (without the tables: `exporters`, `client-metrics` and the like), in the order of the model."""
    return tuple(field.alias or name for name, field in ServiceConfig.model_fields.items() if name not in TABLES)


@dataclass(slots=True)
class _Tables:
    """The keys that belong to a table, as they are found."""

    exporters: dict[str, dict[str, Any]] = field(default_factory=dict)
    subscriptions: dict[str, dict[str, str]] = field(default_factory=dict)
    guard: dict[str, dict[str, Any]] = field(default_factory=dict)
    kafka_client: dict[str, str] = field(default_factory=dict)
    quota_callback: dict[str, str] = field(default_factory=dict)
    listener_name: dict[str, object] = field(default_factory=dict)
    users: dict[str, dict[str, str]] = field(default_factory=dict)
    quotas: dict[str, dict[str, float]] = field(default_factory=dict)

    def take(self, key: str, raw: Sourced) -> bool:
        """True if the key belongs to one of them.

        Raises:
            ConfigError: it does, and has another form than the table's keys.
        """
        if key.startswith("exporters."):
            name, inner = _exporter_key(key, raw)
            self.exporters.setdefault(name, {})[inner] = raw.value
        elif key.startswith(_SUBSCRIPTION):
            name, inner = _subscription_key(key, raw)
            self.subscriptions.setdefault(name, {})[inner] = _kafka_text(raw.value)
        elif key.startswith("client-guard."):
            name, inner = _guard_key(key, raw)
            self.guard.setdefault(name, {})[inner] = raw.value
        elif key.startswith(_KAFKA_CLIENT) and key != _KAFKA_CLIENT:
            self.kafka_client[key.removeprefix(_KAFKA_CLIENT)] = _kafka_text(raw.value)
        elif key.startswith(_QUOTA_CALLBACK) and key != _QUOTA_CALLBACK:
            self.quota_callback[key.removeprefix(_QUOTA_CALLBACK)] = _kafka_text(raw.value)
        elif key.startswith(LISTENER_PREFIX):
            self.listener_name[key.removeprefix(LISTENER_PREFIX)] = raw.value
        elif key.startswith(USERS_PREFIX):
            name, inner = _user_key(key, raw)
            self.users.setdefault(name, {})[inner] = _kafka_text(raw.value)
        elif key.startswith(QUOTAS_PREFIX):
            name, inner, limit = _quota(key, raw)
            self.quotas.setdefault(name, {})[inner] = limit
        else:
            return False
        return True


def _validate(sourced: Mapping[str, Sourced]) -> ServiceConfig:
    values: dict[str, Any] = {}
    tables = _Tables()
    known = set(known_keys())
    for key, raw in sourced.items():
        if key in known:
            values[key] = raw.value
        elif not tables.take(key, raw):
            hint = NOT_READ.get(key) or f"is no configuration key{_did_you_mean(key, known)}"
            raise ConfigError(key, hint, source=raw.source)
    # Nodes that share a topic would each make a landing zone of a part of it: there, nothing is assumed.
    assumed = {} if values.get("push.log") == "kafka" else {"landing": {"type": "landing"}}
    values["exporters"] = tables.exporters or assumed
    values["push.log.kafka.client"] = tables.kafka_client
    values["client.quota.callback.config"] = tables.quota_callback
    values["listener.name"] = tables.listener_name
    values["sasl.users"] = tables.users
    values["quotas"] = tables.quotas
    values["client-guard"] = tables.guard
    values["client-metrics"] = tables.subscriptions
    values["referenced_secrets"] = {
        key: raw.secrets for key, raw in sourced.items() if raw.secrets and any(secrets_in(key, raw.value))
    }
    try:
        config = ServiceConfig.model_validate(values)
    except ValidationError as error:
        raise _first_problem(error, sourced) from error
    for keys in config.exporters.values():
        if keys.get("type") == "landing":
            keys.setdefault("path", str(DataDirectory(config.log_dirs.absolute()).landing))
    return config


def _exporter_key(key: str, raw: Sourced) -> tuple[str, str]:
    _, name, *inner = key.split(".")
    if not inner:
        raise ConfigError(
            key, "an exporter is a table, [exporters.<name>], with a type and its keys", source=raw.source
        )
    return name, ".".join(inner)


def _subscription_key(key: str, raw: Sourced) -> tuple[str, str]:
    for inner in SUBSCRIPTION_KEYS:
        if key.endswith(f".{inner}"):
            name = key.removeprefix(_SUBSCRIPTION).removesuffix(inner).rstrip(".")
            if name:
                return name, inner
    allowed = ", ".join(SUBSCRIPTION_KEYS)
    raise ConfigError(key, f"a subscription [client-metrics.<name>] has the keys {allowed}", source=raw.source)


def _guard_key(key: str, raw: Sourced) -> tuple[str, str]:
    name, _, inner = key.removeprefix("client-guard.").rpartition(".")
    if not name:
        raise ConfigError(
            key, "a rule of the client guard is a table, [client-guard.<name>], with its keys", source=raw.source
        )
    return name, inner


def _quota(key: str, raw: Sourced) -> tuple[str, str, float]:
    name, _, inner = key.removeprefix(QUOTAS_PREFIX).rpartition(".")
    if not name:
        raise ConfigError(
            key, 'quotas are tables by entity, for example [quotas."users/alice"], with their limits', source=raw.source
        )
    try:
        (limit,) = read_limits({name: {inner: raw.value}}).values()
    except InvalidConfigError as error:
        raise ConfigError(key, str(error), source=raw.source) from error
    return name, inner, limit.value


def _user_key(key: str, raw: Sourced) -> tuple[str, str]:
    for mechanism in ScramMechanism:
        inner = mechanism.value.lower()
        name = key.removeprefix(USERS_PREFIX).removesuffix(f".{inner}")
        if key.endswith(f".{inner}") and name:
            return name, inner
    allowed = ", ".join(mechanism.value.lower() for mechanism in ScramMechanism)
    raise ConfigError(
        key,
        f"a user [sasl.users.<name>] has the keys {allowed}, made by fleetgauge credentials; no password is kept",
        source=raw.source,
    )


def _kafka_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(str(item) for item in value) if isinstance(value, list) else str(value)


def _did_you_mean(key: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(
        key,
        [
            *known,
            "[exporters.<name>]",
            "[client-metrics.<name>]",
            "[client-guard.<name>]",
            "[sasl.users.<name>]",
            '[quotas."<entity>"]',
        ],
        n=1,
    )
    return f"; did you mean {close[0]}?" if close else "; the keys are listed by fleetgauge config"


def _first_problem(error: ValidationError, sourced: Mapping[str, Sourced]) -> ConfigError:
    first = error.errors(include_url=False)[0]
    key = str(first["loc"][0]) if first["loc"] else ""
    message = first["msg"].removeprefix("Value error, ")
    raw = sourced.get(key)
    if raw is None:
        return ConfigError(key, message)
    return ConfigError(key, f"{_shown_in_error(key, raw)} is not allowed: {message}", source=raw.source)


def _shown_in_error(key: str, raw: Sourced) -> str:
    """What an error says of a value: as it was written, without secrets."""
    return "its value" if is_secret(key) else repr(shown(key, raw.value if raw.written is None else raw.written))


def _check_subscriptions(config: ServiceConfig, sourced: Mapping[str, Sourced]) -> None:
    for name, properties in config.client_metrics.items():
        try:
            check_subscription(name, properties)
        except InvalidConfigError as error:
            raise ConfigError(
                f"client-metrics.{name}", str(error), source=_source_of("client-metrics", name, sourced)
            ) from error


def _check_guard(config: ServiceConfig, sourced: Mapping[str, Sourced]) -> None:
    for name, keys in config.client_guard.items():
        try:
            guard_rules({name: keys})
        except InvalidConfigError as error:
            raise ConfigError(
                f"client-guard.{name}", str(error), source=_source_of("client-guard", name, sourced)
            ) from error


def _check_quotas(config: ServiceConfig) -> None:
    try:
        limits = read_limits(config.quotas)  # together: each alone was checked with its key
    except InvalidConfigError as error:
        raise ConfigError("quotas", str(error)) from error
    for _, key in limits:
        # A client may ask one worker and push to another: each would give it an interval of its own, and refuse the
        # other's subscription id again and again.
        if key in TELEMETRY_QUOTA_KEYS and config.workers > 1:
            raise ConfigError(
                "quotas", f"{key} needs workers=1, and workers is {config.workers}: leave one of them out"
            )


def _check_exporters(config: ServiceConfig, sourced: Mapping[str, Sourced]) -> None:
    # Not at the head: a worker is given a configuration that was checked, and shall not hold pyarrow and gRPC for it.
    from exporters.registry import check_exporter

    for name, keys in config.exporters.items():
        try:
            check_exporter(name, keys)  # connects to nothing yet
        except ExporterConfigError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001  # a type of the operator's own may raise anything
            problem = f"the type {keys.get('type')} refuses its keys: {type(error).__name__}: {error}"
        else:
            _check_loop(config, name, keys)
            continue
        raise ConfigError(f"exporters.{name}", problem, source=_source_of("exporters", name, sourced))


def _check_loop(config: ServiceConfig, name: str, keys: Mapping[str, Any]) -> None:
    """A push that is delivered to the topic that it was read from would be read again, for ever."""
    if config.push_log != "kafka" or keys["type"] != "kafka_topic" or keys["topic"] != config.push_log_kafka_topic:
        return
    named = keys["bootstrap.servers"]
    servers = {each.strip() for each in (named.split(",") if isinstance(named, str) else named)}
    if servers & set(config.push_log_kafka_bootstrap_servers):
        raise ConfigError(
            f"exporters.{name}.topic", f"is {keys['topic']}, which is the push log: every push would come back to it"
        )


def _check_topic(config: ServiceConfig) -> None:
    if config.push_log != "kafka":
        return
    try:
        check_clients(topic_settings(config))
    except PushLogError as error:
        raise ConfigError("push.log", str(error)) from error


def _check_security(config: ServiceConfig, sourced: Mapping[str, Sourced]) -> None:
    try:
        config.security_keys()  # reads no certificate: that is for the listener alone
    except ConfigError as error:
        raw = sourced.get(error.key)
        raise ConfigError(error.key, error.problem, source=raw.source if raw else "") from error


def _source_of(table: str, name: str, sourced: Mapping[str, Sourced]) -> str:
    prefix = f"{table}.{name}."
    return next((raw.source for key, raw in sourced.items() if key.startswith(prefix)), "")

"""Configuration keys that a running node takes over on SIGHUP, and the log lines about the other ones."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.config.security import ListenerKeys
from fleetgauge.node.off_loop import OffLoop
from fleetgauge.telemetry.subscriptions.client_guard import GuardRule
from fleetgauge.telemetry.subscriptions.known_clients import guard_rules
from fleetgauge.wire.context.listener_security import ListenerSecurity

log = structlog.get_logger(__name__)

_EXAMINE_WITHIN_S: Final = 4.0
OWN_USER_FIELD: Final = "gateway_sasl_password"
"""The password of the gateway's own user at the broker."""
_CHANGEABLE: Final = {
    *(
        "admin_listeners",
        *("authorizer_class_name", "super_users", "allow_everyone_if_no_acl_found", "telemetry_acl_required"),
        *("acls", "client_id_patterns"),
        "client_metrics",
        "client_metrics_resources_max",
        "client_guard",
        "logging_level",
        "listener_name",
        "sasl_users",
    ),
    *("max_connections_per_ip", "max_connections_per_ip_overrides", "quotas", "referenced_secrets"),
    *ListenerKeys.model_fields,
    OWN_USER_FIELD,
}


def changeable_fields(old: ServiceConfig, new: ServiceConfig) -> frozenset[str]:
    """Fields of `new` that need no restart. A listener's certificates, rules and limits hold for connections to come.

    A password of the gateway's own user is one of them, but not that of another user: a session at the broker can be
    renewed by the same user and mechanism alone (KIP-368).
    """
    is_same_user = (old.gateway_sasl_username, old.gateway_sasl_mechanism) == (
        new.gateway_sasl_username,
        new.gateway_sasl_mechanism,
    )
    return frozenset(_CHANGEABLE if is_same_user else _CHANGEABLE - {OWN_USER_FIELD})


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes of a new configuration, read and checked, so that applying them cannot fail half-way."""

    config: ServiceConfig
    guard_rules: tuple[GuardRule, ...]
    securities: Mapping[str, ListenerSecurity]
    overrides: dict[str, int] | None

    @classmethod
    def of(cls, config: ServiceConfig, overrides: dict[str, int] | None = None) -> "Changes":
        """Reads the certificates that `config` names.

        Args:
            config: as it was read.
            overrides: connections by address, where they changed (`NodeConnectionLimits.look_up`).

        Raises:
            ConfigError: certificates or keys cannot be used.
        """
        return cls(
            config=config,
            guard_rules=guard_rules(config.client_guard),
            securities=config.security_keys().build(),
            overrides=overrides,
        )


def examiner() -> OffLoop:
    """Runs `Changes.of`, which reads files and may look up addresses, away from the loop."""
    return OffLoop("examining the configuration", _EXAMINE_WITHIN_S)


def log_reread(old: ServiceConfig, new: ServiceConfig, changeable: Collection[str]) -> None:
    """Logs that a configuration was reread, and the keys that differ and need a restart.

    Args:
        old: before.
        new: as it was reread.
        changeable: fields that need no restart.
    """
    changed = [
        key
        for name, field in ServiceConfig.model_fields.items()
        if name not in changeable
        for key in _differences(field.alias or name, getattr(old, name), getattr(new, name))
    ]
    if changed:
        log.warning("config.restart_needed", message="these keys changed in the file, and need a restart", keys=changed)
    log.info("config.reread", subscriptions=sorted(new.client_metrics))


def _differences(key: str, old: object, new: object) -> list[str]:
    """The keys that differ; of tables, each inner key by itself.

    >>> _differences("exporters", {"a": {"type": "otlp", "endpoint": "x"}}, {"a": {"type": "otlp", "endpoint": "y"}})
    ['exporters.a.endpoint']
    """
    if old == new:
        return []
    if not isinstance(old, dict) or not isinstance(new, dict):
        return [key]
    inner = sorted(old.keys() | new.keys())
    return [each for name in inner for each in _differences(f"{key}.{name}", old.get(name), new.get(name))]

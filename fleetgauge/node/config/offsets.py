"""Settings of what uses a cluster's Admin API, `[offsets]` and `[subscriptions]`, from the configuration."""

from pathlib import Path

from fleetgauge.base.errors import ConfigError
from fleetgauge.cluster.settings import ClusterSettings, connection_settings
from fleetgauge.exporters.group_offsets.settings import (
    OffsetsConfigError,
    OffsetsSettings,
    read_command_config,
    writer_name,
)
from fleetgauge.node.config.model import ServiceConfig
from fleetgauge.node.data_dir import DataDirectory


def offsets_settings(config: ServiceConfig, instance: str = "") -> OffsetsSettings | None:
    """Settings of the exporter process's sampler; None without `offsets.bootstrap.servers`.

    Args:
        config: the configuration.
        instance: distinguishes processes that share a landing zone and a host.

    Raises:
        ConfigError: the file `offsets.command.config` cannot be used.
    """
    if not config.offsets_bootstrap_servers:
        return None
    servers = ",".join(config.offsets_bootstrap_servers)
    client = _client("offsets.command.config", config.offsets_command_config)
    return OffsetsSettings(
        bootstrap_servers=servers,
        path=config.offsets_path or landing_path(config),
        writer="-".join(filter(None, (writer_name(servers), instance))),
        client=client,
        groups=config.offsets_groups,
        cluster_id=config.offsets_cluster_id,
        interval_ms=config.offsets_interval_ms,
        timeout_ms=config.offsets_request_timeout_ms,
        max_requests_per_s=config.offsets_max_request_rate,
        linger_ms=config.offsets_linger_ms,
        retention_ms=config.offsets_retention_ms or None,
    )


def deadline_settings(config: ServiceConfig, *, is_node: bool) -> ClusterSettings | None:
    """The cluster whose subscriptions are shown, and taken back in time; None where there is none.

    Without `subscriptions.bootstrap.servers` it is that of the topic, whose brokers have the subscriptions; a node has
    its own.

    Args:
        config: the configuration.
        is_node: of `fleetgauge serve` or `gateway`.

    Raises:
        ConfigError: the file `subscriptions.command.config` cannot be used.
    """
    servers, file = config.subscriptions_bootstrap_servers, config.subscriptions_command_config
    client, client_from = _client("subscriptions.command.config", file), "subscriptions.command.config"
    if follows_topic(config, is_node=is_node):
        servers = config.push_log_kafka_bootstrap_servers
        if file is None:
            client, client_from = connection_settings(config.push_log_kafka_client), "push.log.kafka.client.*"
    if not servers:
        return None
    return ClusterSettings(bootstrap_servers=",".join(servers), client=client, client_from=client_from)


def follows_topic(config: ServiceConfig, *, is_node: bool) -> bool:
    """True if the subscriptions are by default those of the topic's cluster."""
    return (
        config.push_log == "kafka" and not is_node and "subscriptions_bootstrap_servers" not in config.model_fields_set
    )


def _client(key: str, file: Path | None) -> dict[str, str]:
    try:
        return {} if file is None else read_command_config(file)
    except OffsetsConfigError as error:
        raise ConfigError(key, str(error)) from error


def landing_path(config: ServiceConfig) -> str:
    """Path of the only `landing` exporter; otherwise the landing zone in the data directory."""
    paths = [str(keys["path"]) for keys in config.exporters.values() if keys.get("type") == "landing"]
    return paths[0] if len(paths) == 1 else str(DataDirectory(config.log_dirs.absolute()).landing)

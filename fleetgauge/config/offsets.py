"""Settings of what uses a cluster's Admin API, `[offsets]` and `[subscriptions]`, from the configuration."""

from pathlib import Path

from exporters.group_offsets.settings import OffsetsConfigError, OffsetsSettings, read_command_config, writer_name
from fleetgauge.config.model import ServiceConfig
from fleetgauge.data_dir import DataDirectory
from fleetgauge.errors import ConfigError
from fleetgauge.subscriptions.settings import ClusterSettings


def offsets_settings(config: ServiceConfig, instance: str = "") -> OffsetsSettings | None:
    """What the exporter process samples; None without `offsets.bootstrap.servers`.

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


def deadline_settings(config: ServiceConfig) -> ClusterSettings | None:
    """The cluster whose subscriptions are taken back in time; None without `subscriptions.bootstrap.servers`.

    Raises:
        ConfigError: the file `subscriptions.command.config` cannot be used.
    """
    if not config.subscriptions_bootstrap_servers:
        return None
    return ClusterSettings(
        bootstrap_servers=",".join(config.subscriptions_bootstrap_servers),
        client=_client("subscriptions.command.config", config.subscriptions_command_config),
        client_from="subscriptions.command.config",
    )


def _client(key: str, file: Path | None) -> dict[str, str]:
    try:
        return {} if file is None else read_command_config(file)
    except OffsetsConfigError as error:
        raise ConfigError(key, str(error)) from error


def landing_path(config: ServiceConfig) -> str:
    """That of the one `landing` exporter; else the landing zone in the data directory."""
    paths = [str(keys["path"]) for keys in config.exporters.values() if keys.get("type") == "landing"]
    return paths[0] if len(paths) == 1 else str(DataDirectory(config.log_dirs.absolute()).landing)

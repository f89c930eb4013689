"""Settings of the sampler of consumer groups, `[offsets]`, from the configuration."""

from exporters.group_offsets.settings import OffsetsConfigError, OffsetsSettings, read_command_config, writer_name
from fleetgauge.config.model import ServiceConfig
from fleetgauge.data_dir import DataDirectory
from fleetgauge.errors import ConfigError


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
    file = config.offsets_command_config
    try:
        client = {} if file is None else read_command_config(file)
    except OffsetsConfigError as error:
        raise ConfigError("offsets.command.config", str(error)) from error
    return OffsetsSettings(
        bootstrap_servers=servers,
        path=config.offsets_path or _landing_path(config),
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


def _landing_path(config: ServiceConfig) -> str:
    """That of the one `landing` exporter; else the landing zone in the data directory."""
    paths = [str(keys["path"]) for keys in config.exporters.values() if keys.get("type") == "landing"]
    return paths[0] if len(paths) == 1 else str(DataDirectory(config.log_dirs.absolute()).landing)

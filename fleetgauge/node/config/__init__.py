"""Configuration by Kafka's key names, from a TOML file, `FLEETGAUGE_*` variables and `--override key=value`."""

from fleetgauge.base.errors import ConfigError
from fleetgauge.node.config.listeners import Endpoint
from fleetgauge.node.config.load import load_config
from fleetgauge.node.config.model import ServiceConfig

__all__ = ["ConfigError", "Endpoint", "ServiceConfig", "load_config"]

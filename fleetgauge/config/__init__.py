"""Configuration by Kafka's key names, from a TOML file, `FLEETGAUGE_*` variables and `--override key=value`."""

from fleetgauge.config.listeners import Endpoint
from fleetgauge.config.load import load_config
from fleetgauge.config.model import ServiceConfig
from fleetgauge.errors import ConfigError

__all__ = ["ConfigError", "Endpoint", "ServiceConfig", "load_config"]

"""Errors of configuration and data directory, each a sentence for the operator."""

from fleetgauge.base.errors import FleetgaugeError


class DataDirectoryError(FleetgaugeError):
    """A file of the data directory cannot be read or written: disk full, no permission, or it was removed."""


class ConfigError(FleetgaugeError):
    """A configuration that cannot be used.

    Attributes:
        key: the key in Kafka's dotted form, e.g. `telemetry.max.bytes`; empty for an error of the whole file.
        problem: what is wrong with it and what is allowed.
        source: origin of the value, e.g. `fleetgauge.toml`, `FLEETGAUGE_NODE_ID`, `--override`.
    """

    def __init__(self, key: str, problem: str, *, source: str = "") -> None:
        super().__init__(key, problem, source)
        self.key = key
        self.problem = problem
        self.source = source

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        return f"{self.key}{where}: {self.problem}" if self.key else f"{self.problem}{where}"

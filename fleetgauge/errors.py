"""Errors of the process: what is wrong with a configuration, in one sentence that names the key."""

from base.errors import FleetgaugeError


class DataDirectoryError(FleetgaugeError):
    """A file of the data directory cannot be read or written: no room, no permission, or the directory is gone."""


class ConfigError(FleetgaugeError):
    """A configuration that cannot be used.

    Attributes:
        key: the key in Kafka's dotted form, e.g. `telemetry.max.bytes`; empty where the whole file is at fault.
        problem: what is wrong with it and what is allowed.
        source: where the value came from, e.g. `fleetgauge.toml`, `FLEETGAUGE_NODE_ID`, `--override`.
    """

    def __init__(self, key: str, problem: str, *, source: str = "") -> None:
        super().__init__(key, problem, source)
        self.key = key
        self.problem = problem
        self.source = source

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        return f"{self.key}{where}: {self.problem}" if self.key else f"{self.problem}{where}"

"""`fleetgauge export`: the exporters alone, reading the topic, until SIGTERM or SIGINT."""

from fleetgauge.cli.options import ConfigFile, Overrides, config_reader
from fleetgauge.lean_imports import import_structlog


def export(config: ConfigFile = None, override: Overrides = None) -> None:
    """Deliver the pushes on a Kafka topic, which the broker plugin writes (or fleetgauge serve with push.log=kafka).

    Any number of these may run, on any machines, with the same configuration: the processes share the topic's
    partitions as one consumer group for each exporter. When one dies the others take over, and nothing is lost.

    Each serves its health, metrics and clients at http.listeners; on one machine, give each an address of its own.

    SIGTERM and SIGINT stop it in order: what it has is delivered within shutdown.timeout.ms, then it leaves its groups.
    """
    import_structlog()
    from fleetgauge.exporting import export_until_stopped  # without rich

    export_until_stopped(config_reader(config, override))

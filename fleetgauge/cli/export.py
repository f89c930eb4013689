"""`fleetgauge export`: the exporters alone, reading the topic, until SIGTERM or SIGINT."""

from fleetgauge.cli.options import ConfigFile, Overrides, config_reader


def export(config: ConfigFile = None, override: Overrides = None) -> None:
    """Deliver the pushes on a Kafka topic, which the broker plugin writes (or fleetgauge serve with push.log=kafka).

    Any number of these may run, on any machines, with the same configuration: the processes share the topic's
    partitions as one consumer group for each exporter. When one dies the others take over, and nothing is lost.

    Each serves its health, metrics and clients at http.listeners; on one machine, give each an address of its own.

    SIGTERM and SIGINT stop it in order: what it has is delivered within shutdown.timeout.ms, then it leaves its groups.
    """
    from fleetgauge.exporting import export_until_stopped  # half the program: other commands start without it

    export_until_stopped(config_reader(config, override))

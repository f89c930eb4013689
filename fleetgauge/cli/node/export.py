"""`fleetgauge export`: runs the exporters of a topic until SIGTERM or SIGINT."""

from fleetgauge.cli.options import ConfigOptions


def export(options: ConfigOptions) -> None:
    """Deliver the pushes on a Kafka topic, which the broker plugin writes (or a node with push.log.type=kafka).

    Any number of processes may run, on any machines, with the same configuration: they share the topic's partitions as
    one consumer group per exporter. If one dies, the others take over and nothing is lost.

    Each serves its health, metrics and clients at http.listeners; on one machine, each needs its own address.

    SIGTERM and SIGINT stop it gracefully: pushes in flight are delivered within shutdown.timeout.ms, then it leaves its
    groups.

    Examples:
        fleetgauge export --config export.toml
    """
    from fleetgauge.node.processes.lean_imports import import_structlog

    import_structlog()
    from fleetgauge.node.exporting import export_until_stopped  # without rich

    export_until_stopped(options.reader())

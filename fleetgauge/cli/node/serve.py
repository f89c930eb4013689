"""`fleetgauge serve`: runs a node until SIGTERM or SIGINT; SIGHUP rereads the configuration."""

from fleetgauge.cli.options import ConfigOptions


def serve(options: ConfigOptions) -> None:
    """Run a node: receive the pushes of Kafka clients, log them, deliver them.

    Without configuration it listens on 127.0.0.1:9092, subscribes every client to all metrics every 60 s, and keeps
    its push log and a landing zone for Spark in ./fleetgauge-data.

    It receives telemetry only, no records: do not use it as the bootstrap server of an application. In production
    the brokers receive the pushes, with the plugin (docs/start/deploy-broker-plugin.md), and fleetgauge export delivers
    them.

    SIGTERM and SIGINT stop it gracefully: no new connections, pending responses sent, exporters flushed within
    shutdown.timeout.ms. SIGHUP rereads subscriptions, users, limits and log level; a file with an error is refused as
    a whole, and keys that need a restart are named in the log.

    Examples:
        fleetgauge serve
        fleetgauge serve --config /etc/fleetgauge/fleetgauge.toml
        fleetgauge serve --override listeners=PLAINTEXT://0.0.0.0:9092
    """
    from fleetgauge.node.processes.lean_imports import import_structlog

    import_structlog()
    from fleetgauge.node.serving import serve_until_stopped  # without rich

    serve_until_stopped(options.reader())

"""`fleetgauge serve`: runs a node until SIGTERM or SIGINT; SIGHUP rereads the configuration."""

from fleetgauge.cli.options import ConfigFile, Overrides, config_reader
from fleetgauge.lean_imports import import_structlog


def serve(config: ConfigFile = None, override: Overrides = None) -> None:
    """Run a node: listen for Kafka clients, log what they push, deliver it.

    Without any configuration it listens on 127.0.0.1:9092, asks every client for everything every 60 s, and keeps
    its push log and a landing zone for Spark in ./fleetgauge-data.

    It takes telemetry and carries no records: an application that is pointed at it fails. In production the brokers
    receive the pushes, with the plugin (docs/deploy-broker-plugin.md), and fleetgauge export delivers them.

    SIGTERM and SIGINT stop it in order: no new connections, pending responses sent, exporters flushed within
    shutdown.timeout.ms. SIGHUP rereads subscriptions, users, limits and log level; a bad file is refused whole, and
    keys that need a restart are named in the log.
    """
    import_structlog()
    from fleetgauge.serving import serve_until_stopped  # without rich

    serve_until_stopped(config_reader(config, override))

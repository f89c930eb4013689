"""`fleetgauge gateway`: runs a gateway before a broker until SIGTERM or SIGINT; SIGHUP rereads the configuration."""

from fleetgauge.cli.options import ConfigOptions


def gateway(options: ConfigOptions) -> None:
    """Run a gateway: pass Kafka traffic to a broker, and receive the telemetry of its clients.

    It stands before one broker, named by gateway.broker (host:port), or before all of a cluster, which gateway.brokers
    names, and which clients tell apart by the server name of TLS. Clients connect to the gateway's listeners; they
    get their records from the broker, and their telemetry subscriptions from the gateway, whether the broker knows
    them or not. The brokers' addresses in responses must lead through gateways, too: advertise the gateway in the
    broker's advertised.listeners, or map them by gateway.nodes (docs/start/gateway.md).

    Everything else is as in fleetgauge serve: configuration, push log, exporters, HTTP port, signals. A stop closes the
    clients' connections once their requests are answered; they connect again when the gateway is back.

    Examples:
        fleetgauge gateway --config gateway.toml
        fleetgauge gateway --override gateway.broker=broker-1:9092 --override listeners=PLAINTEXT://0.0.0.0:9192
    """
    from fleetgauge.node.processes.lean_imports import import_structlog

    import_structlog()
    from fleetgauge.node.serving import serve_until_stopped  # without rich

    serve_until_stopped(options.reader(), as_gateway=True)

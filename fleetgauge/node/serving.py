"""`fleetgauge serve` and `fleetgauge gateway`: a node, from the checked configuration to its stop."""

import asyncio
import threading
from collections.abc import Iterator
from importlib.metadata import version

import structlog
import uvloop

from fleetgauge.base.errors import ConfigError
from fleetgauge.node.app import FleetgaugeNode
from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.config.push_logs import state_file, unread_logs
from fleetgauge.node.config.reader import ConfigReader
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.lifetime import (
    exporter_lines,
    prepare_process,
    run_until_stopped,
    start_logging,
    warn_of_subscriptions,
)
from fleetgauge.node.node_class import node_class
from fleetgauge.node.processes.workers.node import WorkersNode
from fleetgauge.node.state.client_metrics import from_records
from fleetgauge.node.state.store import RecordKind, StateStore
from fleetgauge.push_log.log import PushLogError
from fleetgauge.telemetry.subscriptions.overrides import DEFAULT_NAME, ClientMetricsResources
from fleetgauge.terminal.text import printable

log = structlog.get_logger(__name__)


def serve_until_stopped(reader: ConfigReader, *, as_gateway: bool = False) -> None:
    """Runs a node until SIGTERM or SIGINT; SIGHUP reads the configuration again.

    Args:
        reader: reads the configuration.
        as_gateway: True for `fleetgauge gateway`.

    Raises:
        FleetgaugeError: the configuration cannot be used, or a part does not start.
    """
    hangup = prepare_process()
    config = reader.read()
    _check_command(config, as_gateway=as_gateway)
    start_logging(config, reader)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(config, reader, hangup))


async def _serve(config: ServiceConfig, reader: ConfigReader, hangup: threading.Event) -> None:
    _warn_of_unread_logs(config)
    warn_of_subscriptions(config)
    node = WorkersNode(config) if config.workers > 1 else node_class(config)(config)
    await run_until_stopped(node, config, reader, hangup, lambda: _summary(node, config))


def _check_command(config: ServiceConfig, *, as_gateway: bool) -> None:
    if as_gateway:
        from fleetgauge.node.gateway_node import gateway_settings

        gateway_settings(config)
    elif config.gateway_broker:
        raise ConfigError("gateway.broker", "is set, but fleetgauge serve passes no traffic: run fleetgauge gateway")


def _warn_of_unread_logs(config: ServiceConfig) -> None:
    try:
        waiting = unread_logs(config)
    except PushLogError as error:
        log.warning(
            "push_log.not_read", message="an embedded push log is not read while push.log is kafka", error=str(error)
        )
        return
    for path, pushes in waiting.items():
        log.warning(
            "push_log.not_read",
            message="pushes wait in an embedded push log, which is not read while push.log is kafka: start once more "
            "with push.log.type=sqlite until fleetgauge status --exporters shows no lag, or remove the directory",
            pushes=pushes,
            directory=str(path),
        )


def _summary(node: FleetgaugeNode | WorkersNode, config: ServiceConfig) -> str:
    """Where a node that has just started listens, logs and delivers, line by line."""
    lines = [f"Fleetgauge {version('fleetgauge')}, node {config.node_id} of cluster {node.identity.cluster_id}"]
    for bound in node.identity.bound:
        host, port = node.identity.advertised(bound.listener_name)
        listens = f"{bound.listener_name}://{bound.host}:{bound.port}"
        sent = "" if config.gateway_broker else f" (clients are sent to {host}:{port})"
        lines.append(f"  listening     {listens}{sent}")
    lines.append(f"  takes         {_takes(config)}")
    if config.gateway_broker:
        mapped = (
            ", ".join(config.gateway_nodes) or "at the addresses that they advertise, which must be their gateways'"
        )
        lines.append(printable(f"  brokers       {mapped}"))
    if config.workers > 1:
        lines.append(f"  workers       {config.workers} processes share the listeners")
    lines.append(f"  http          {node.http}")
    if config.metric_reporters:
        lines.append(printable(f"  reporters     {', '.join(config.metric_reporters)}"))
    lines.extend(subscription_lines(config))
    lines.append(f"  admin tools   {_admin_tools(config)}")
    if config.state_store == "kafka":
        servers = ",".join(config.push_log_kafka_bootstrap_servers)
        lines.append(f"  state         topic {config.state_topic} at {servers}, shared by its nodes")
    if config.authorizer_class_name:
        lines.append("  authorizer    what no ACL allows is denied; kafka-acls.sh shows the ACLs")
    lines.append(f"  push log      {_push_log(config)}")
    lines.extend(exporter_lines(config))
    lines.append(f"  look at it    fleetgauge status --log-dirs {config.log_dirs}")
    return "\n".join(lines)


def _admin_tools(config: ServiceConfig) -> str:
    if config.gateway_broker:
        own = ", ".join(sorted(config.admin_listener_names()))
        where = f"on {own} those of the gateway" if own else "no listener has those of the gateway (admin.listeners)"
        return f"kafka-configs.sh changes the broker's subscriptions and quotas; {where}"
    served = ", ".join(sorted(config.admin_listener_names())) or "no listener (admin.listeners)"
    return f"kafka-configs.sh may change subscriptions, quotas and users on {served}"


def _takes(config: ServiceConfig) -> str:
    if not config.gateway_broker:
        return "client telemetry, no records: applications connect to your Kafka brokers"
    telemetry = "answers telemetry itself" if config.gateway_telemetry == "answer" else "passes telemetry too"
    brokers = ", ".join([config.gateway_broker, *config.gateway_brokers])
    return f"Kafka traffic, passed to {printable(brokers)}; {telemetry}"


def subscription_lines(config: ServiceConfig) -> Iterator[str]:
    """Subscriptions in force: those of the configuration, overridden by the changes of tools."""
    records = StateStore(state_file(config, DataDirectory(config.log_dirs))).read().get(RecordKind.CLIENT_METRICS, {})
    resources = ClientMetricsResources(
        configured=config.client_metrics,
        changes=from_records(records),
        max_resources=config.client_metrics_resources_max,
    )
    in_force = resources.effective()
    for name, keys in in_force.items():
        shown = ", ".join(f"{key}={value}" for key, value in keys.items())
        trial = " (built in, for trying out: all clients push all metrics)" if resources.is_built_in else ""
        yield printable(f"  subscription  {name}: {shown}{trial if name == DEFAULT_NAME else ''}")
    if not in_force and not (config.gateway_broker and config.gateway_telemetry == "pass"):
        yield "  subscription  none: no client pushes; add [client-metrics.<name>] to the configuration"


def _push_log(config: ServiceConfig) -> str:
    if config.push_log == "kafka":
        return f"topic {config.push_log_kafka_topic} at {','.join(config.push_log_kafka_bootstrap_servers)}"
    data = DataDirectory(config.log_dirs.absolute())
    if config.workers > 1:
        return f"{data.worker(1).push_log} and so on, one for each worker"
    return str(data.push_log)

"""All checks, in the order in which a reader needs them."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.cli.node.doctor.authorizer import check_authorizer
from fleetgauge.cli.node.doctor.brokers import BrokersInUse, TopicUse, check_brokers
from fleetgauge.cli.node.doctor.destinations import check_destinations
from fleetgauge.cli.node.doctor.finding import Finding, error, ok
from fleetgauge.cli.node.doctor.gateway import check_gateway
from fleetgauge.cli.node.doctor.installation import check_installation
from fleetgauge.cli.node.doctor.machine import check_clock, check_disk, check_files, check_ports
from fleetgauge.cluster.settings import ClusterSettings, connection_settings
from fleetgauge.exporters.group_offsets.settings import read_command_config
from fleetgauge.node.config import ServiceConfig, load_config
from fleetgauge.node.config.offsets import deadline_settings, follows_topic, offsets_settings
from fleetgauge.node.config.push_logs import topic_settings
from fleetgauge.push_log.kafka_topic.settings import DEFAULT_TOPIC

Process = Literal["serve", "gateway", "export"]

_TIMEOUT_MS: Final = 5_000
_OF_SUBSCRIPTIONS: Final = ("DESCRIBE_CONFIGS", "ALTER_CONFIGS")


def check_all(
    config_file: Path | None,
    overrides: Iterable[str],
    bootstrap_servers: str | None,
    command_config: Path | None,
    process: Process | None,
) -> Iterator[Finding]:
    """Checks everything. Findings come as they are made: one that takes long holds up none before it.

    Args:
        config_file: TOML file of the process; None for the defaults.
        overrides: `KEY=VALUE`, as of `--override`.
        bootstrap_servers: a cluster to check in addition to those of the configuration.
        command_config: client settings for it.
        process: the command that the configuration is for; None derives it from `gateway.broker` and `push.log.type`.

    Raises:
        OffsetsConfigError: `command_config` cannot be used.
    """
    client = {} if command_config is None else read_command_config(command_config)
    yield from check_installation()
    yield check_clock()
    topic = DEFAULT_TOPIC
    try:
        config = load_config(config_file, environment=os.environ, overrides=overrides)
    except FleetgaugeError as problem:
        yield error("configuration", str(problem), "Correct it; fleetgauge config prints every key and its meaning.")
    else:
        topic = config.push_log_kafka_topic
        named = str(config_file) if config_file is not None else "defaults, no file"
        chosen = process or _command(config)
        yield ok("configuration", f"{named}; checked for fleetgauge {chosen}")
        yield from _check_config(config, chosen)
    if bootstrap_servers is not None:
        used = TopicUse(topic=topic, operations=("READ", "DESCRIBE"), from_plugin=True)
        settings = ClusterSettings(bootstrap_servers=bootstrap_servers, client=client, timeout_ms=_TIMEOUT_MS)
        yield from check_brokers(BrokersInUse(named_by="--bootstrap-server", settings=settings, topics=(used,)))


def _command(config: ServiceConfig) -> Process:
    if config.gateway_broker:
        return "gateway"
    return "export" if config.push_log == "kafka" else "serve"


def _check_config(config: ServiceConfig, process: Process) -> Iterator[Finding]:
    yield check_files(config)
    yield from check_ports(config, serves=process != "export")
    yield from check_disk(config, keeps_log=config.push_log == "sqlite")
    if process != "export":
        yield from check_authorizer(config)
    yield from check_destinations(config)
    if process == "gateway":
        yield from check_gateway(config)
    for used in _clusters(config, process):
        yield from check_brokers(used)


def _clusters(config: ServiceConfig, process: Process) -> Iterator[BrokersInUse]:
    """The clusters that the configuration names, with what it does there."""
    serves = process != "export"
    topics = tuple(_topics(config, serves=serves))
    follows = follows_topic(config, is_node=serves)
    if topics:
        log = topic_settings(config)  # the state's cluster too
        settings = _cluster(log.bootstrap_servers, log.client, "push.log.kafka.client.*")
        wanted = _OF_SUBSCRIPTIONS if follows else ()
        yield BrokersInUse(
            named_by="push.log.kafka", settings=settings, topics=topics, wanted=wanted, by_librdkafka=True
        )
    for name, keys in config.exporters.items():
        if keys.get("type") == "kafka_topic":
            client = {
                key.removeprefix("client."): str(value) for key, value in keys.items() if key.startswith("client.")
            }
            use = TopicUse(topic=str(keys["topic"]), operations=("WRITE", "DESCRIBE"), creates=True)
            yield BrokersInUse(
                named_by=f"exporters.{name}",
                settings=_cluster(_joined(keys["bootstrap.servers"]), client, f"exporters.{name}.client.*"),
                topics=(use,),
                by_librdkafka=True,
            )
    offsets, deadlines = offsets_settings(config), deadline_settings(config, is_node=serves)
    if offsets is not None:
        yield BrokersInUse(
            named_by="offsets",
            settings=_cluster(offsets.bootstrap_servers, offsets.client, "offsets.command.config"),
            operations=() if offsets.groups else ("DESCRIBE",),
            by_librdkafka=True,
        )
    if deadlines is not None and not follows:
        yield BrokersInUse(named_by="subscriptions", settings=deadlines, operations=_OF_SUBSCRIPTIONS)


def _topics(config: ServiceConfig, *, serves: bool) -> Iterator[TopicUse]:
    """Topics of the cluster of `push.log.kafka`: the push log's and the state's."""
    if config.push_log == "kafka":
        log = topic_settings(config)
        yield TopicUse(
            topic=log.topic,
            operations=("READ", "DESCRIBE", "WRITE") if serves else ("READ", "DESCRIBE"),
            groups=tuple(map(log.group_of, config.exporters)),
            from_plugin=not serves,
            creates=serves,
        )
    if config.state_store == "kafka" and serves:
        yield TopicUse(
            topic=config.state_topic,
            operations=("READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS"),
            creates=True,
            has_pushes=False,
            transactional_id=config.state_topic,
        )


def _cluster(servers: str, client: Any, client_from: str) -> ClusterSettings:
    """Settings for the Admin API, of librdkafka's only those for the connection."""
    return ClusterSettings(
        bootstrap_servers=servers,
        client=connection_settings(client),
        timeout_ms=_TIMEOUT_MS,
        client_from=client_from,
    )


def _joined(servers: Any) -> str:
    return servers if isinstance(servers, str) else ",".join(servers)

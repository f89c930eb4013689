"""`fleetgauge gateway`: a node before a Kafka broker, whose clients' traffic passes through its listeners.

It is the node of `fleetgauge serve` with other connections: what it does not answer itself, it passes to the broker.
Its `admin.listeners` pass nothing: they serve Kafka's admin tools as those of `fleetgauge serve` do.
"""

import dataclasses
from typing import Final

from fleetgauge.base.errors import ConfigError
from fleetgauge.exporters.tls_files import TlsFiles, TlsFilesError
from fleetgauge.gateway.addresses import parse_nodes
from fleetgauge.gateway.gateway import Gateway, GatewaySettings
from fleetgauge.gateway.traffic.rules import TrafficRules
from fleetgauge.gateway.traffic.status import traffic_status
from fleetgauge.node.app import FleetgaugeNode
from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.config.offsets import landing_path
from fleetgauge.node.processes.exporter_job import Job
from fleetgauge.node.processes.traffic_writer import TrafficWriter, traffic_writer_name
from fleetgauge.node.reconfiguration import OWN_USER_FIELD, Changes, changeable_fields
from fleetgauge.node.status.node_socket import Status
from fleetgauge.wire.context.accepted import MakeChannel

_BROKER: Final = "gateway.broker"


class GatewayNode(FleetgaugeNode):
    """A gateway with one listener process, or one worker of several; arguments as of `FleetgaugeNode`."""

    _writer: TrafficWriter | None = None

    def status(self) -> Status:
        """The answer to `fleetgauge status`; plain values that JSON can hold."""
        traffic = traffic_status(self._traffic)
        if self._writer is not None:
            traffic["landing"] = self._writer.status()
        return {**super().status(), "gateway": {**self._gateway.status(), "traffic": traffic}}

    def apply(self, changes: Changes) -> None:
        """See `FleetgaugeNode.apply`; also takes over a new password of the gateway's own user."""
        login = None
        if OWN_USER_FIELD in changeable_fields(self._config, changes.config):
            login = changes.config.gateway_login()
        super().apply(changes)
        if login is not None:
            self._gateway.replace_login(login)

    def _new_channel(self, listener_name: str) -> MakeChannel:
        if listener_name in self._config.passing_listener_names():
            return self._gateway.channel
        return super()._new_channel(listener_name)

    async def _prepare(self) -> Job:
        settings = gateway_settings(self._config)
        job = await super()._prepare()
        quotas = self._parts.quotas
        has_callback = quotas.managers.client_quota_callback is not None
        self._traffic = TrafficRules(
            quotas.managers, quotas.identities, quotas.cluster_changed if has_callback else None
        )
        self._gateway = Gateway(dataclasses.replace(settings, rules=self._traffic))
        return job

    async def _start_service(self) -> None:
        await super()._start_service()
        config = self._config
        if config.gateway_traffic_interval_ms:
            self._writer = TrafficWriter(
                self._traffic,
                path=config.gateway_traffic_path or landing_path(config),
                writer=traffic_writer_name(config.listeners[0].port, self._node_data.root.name),
                interval_ms=config.gateway_traffic_interval_ms,
                cluster_id=self.identity.cluster_id,
                node_id=config.node_id,
                time=self._time,
            )
            self._writer.start()

    async def _stop_service(self, deadline_ms: int) -> None:
        await super()._stop_service(deadline_ms)
        if self._writer is not None:
            await self._writer.stop()


def gateway_settings(config: ServiceConfig) -> GatewaySettings:
    """The settings of a gateway; reads the files of its TLS.

    Raises:
        ConfigError: a key of `[gateway]` is missing or wrong.
    """
    host, port = _broker(config.gateway_broker)
    login = config.gateway_login()
    tls = TlsFiles(
        ca_file=config.gateway_tls_ca_file,
        cert_file=config.gateway_tls_cert_file,
        key_file=config.gateway_tls_key_file,
    )
    try:
        context = tls.context() if config.gateway_security_protocol.has_tls else None
    except TlsFilesError as error:
        raise ConfigError(f"gateway.{error.key}", f"{error.path} {error.problem}") from error
    return GatewaySettings(
        host=host,
        port=port,
        tls=context,
        server_hostname=config.gateway_tls_server_name or None,
        sends_proxy_header=config.gateway_proxy_protocol_enable,
        server_names=config.gateway_server_names(),
        addresses=parse_nodes(config.gateway_nodes),
        login=login,
        requires_sasl=config.gateway_security_protocol.has_sasl and login is None,
        answers_telemetry=config.gateway_telemetry == "answer",
        request_max_bytes=config.gateway_request_max_bytes,
        telemetry_max_bytes=config.telemetry_max_bytes,
        max_in_flight_requests=config.max_in_flight_requests,
        response_timeout_ms=config.gateway_response_timeout_ms,
    )


def _broker(text: str) -> tuple[str, int]:
    if not text:
        raise ConfigError(_BROKER, "is not set: set it to the broker's host:port, for example broker1.example.com:9092")
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise ConfigError(_BROKER, f"{text!r} is not host:port, for example broker1.example.com:9092")
    return host, int(port)

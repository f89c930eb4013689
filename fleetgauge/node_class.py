"""Which node a configuration describes."""

from fleetgauge.app import FleetgaugeNode
from fleetgauge.config import ServiceConfig


def node_class(config: ServiceConfig) -> type[FleetgaugeNode]:
    """A gateway if the configuration names a broker; other nodes do not load what passes traffic."""
    if not config.gateway_broker:
        return FleetgaugeNode
    from fleetgauge.gateway_node import GatewayNode

    return GatewayNode

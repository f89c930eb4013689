"""Which node a configuration describes."""

from fleetgauge.node.app import FleetgaugeNode
from fleetgauge.node.config import ServiceConfig


def node_class(config: ServiceConfig) -> type[FleetgaugeNode]:
    """A gateway if the configuration names a broker; other nodes do not load what passes traffic."""
    if not config.gateway_broker:
        return FleetgaugeNode
    from fleetgauge.node.gateway_node import GatewayNode

    return GatewayNode

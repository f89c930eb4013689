"""Objects and counters that the connections of a gateway share."""

from collections import defaultdict
from dataclasses import dataclass

from fleetgauge.gateway.brokers import Brokers
from fleetgauge.gateway.policy import Policy
from fleetgauge.gateway.server_names import ServerNames
from fleetgauge.gateway.streams.own_login import OwnUser


@dataclass(slots=True, kw_only=True, eq=False)
class Shared:
    """Objects and counters that the connections of a gateway share.

    Attributes:
        policy: of the streams.
        brokers: behind the gateway.
        own_user: the gateway's at the brokers; None if the SASL of clients passes, or there is none.
        server_names: see `gateway.gateway.GatewaySettings`.
        response_timeout_ms: see `gateway.gateway.GatewaySettings`.
        requests: number of requests by api key.
        broker_connections: open connections to the broker.
        broker_connect_failures: clients that were closed because the connection to the broker failed, or the
            gateway's authentication there.
        bytes_to_broker, bytes_from_broker: passed [B].
    """

    policy: Policy
    brokers: Brokers
    own_user: OwnUser | None = None
    server_names: ServerNames | None
    response_timeout_ms: int
    requests: defaultdict[int, int]
    broker_connections: int = 0
    broker_connect_failures: int = 0
    bytes_to_broker: int = 0
    bytes_from_broker: int = 0

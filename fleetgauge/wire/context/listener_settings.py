"""The settings of a listener, with their defaults."""

from dataclasses import dataclass, fields

from fleetgauge.base.errors import InvalidConfigError

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    """Bounds of one listener.

    Attributes:
        socket_request_max_bytes: largest request [B]. Kafka's default is 100 MiB, for batches of records; the largest
            request here is a push of `telemetry.max.bytes` (1 MiB), and the memory that one peer can occupy should be
            of that order.
        socket_listen_backlog_size: connections that the kernel queues until they are accepted. Kafka's default is 50,
            too few for a fleet that reconnects after a restart; the kernel limits it to `net.core.somaxconn`.
        connections_max_idle_ms: a connection without traffic for this long is closed, at most a tenth later [ms].
        max_in_flight_requests: requests of one connection whose responses are not yet sent.
        write_high_water_bytes: unread responses of one connection from which on its requests are not handled [B].
        queued_max_request_bytes: incomplete and waiting requests of all connections [B]; beyond it, the connections
            that held the most for longest are closed. Kafka's `queued.max.request.bytes`, unbounded there.
        request_receive_timeout_ms: time limit from a request's first byte to its last [ms]. Clients time out earlier:
            Java's and franz-go's after 30 s or less, librdkafka after 60 s.
        queued_max_response_bytes: unread responses of all connections [B]; beyond it, the connections that hold the
            most are closed.
        max_client_descriptors: a connection is refused if its descriptor's number is not below this. The system
            assigns the lowest free number, so the number shows how many are open; the rest is reserved for the node.
        accept_error_pause_ms: pause when the process is out of descriptors or memory [ms].
        close_linger_ms: how long a closing connection may take to read its last responses [ms].
        handshake_timeout_ms: time limit of a connection's PROXY header, TLS and SASL together [ms].
        max_unfinished_handshakes: maximum number of unfinished handshakes; for one more, the oldest of the address with
            the most is closed (`wire.context.handshakes`).

    Raises:
        InvalidConfigError: a value is not positive.
    """

    socket_request_max_bytes: int = 16 * MIB
    socket_listen_backlog_size: int = 1024
    connections_max_idle_ms: int = 600_000
    max_in_flight_requests: int = 100
    write_high_water_bytes: int = 256 * 1024
    queued_max_request_bytes: int = 512 * MIB
    queued_max_response_bytes: int = 128 * MIB
    request_receive_timeout_ms: int = 120_000
    max_client_descriptors: int = 1 << 31
    accept_error_pause_ms: int = 100
    close_linger_ms: int = 5_000
    handshake_timeout_ms: int = 30_000
    max_unfinished_handshakes: int = 1_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value < 1:
                raise InvalidConfigError(f"{field.name} is {value}, and must be 1 or more")

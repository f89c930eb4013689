"""What can be set on a listener; the defaults have their home here."""

from dataclasses import dataclass, fields

from base.errors import InvalidConfigError

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    """Bounds of one listener.

    Attributes:
        socket_request_max_bytes: largest request [B]. Kafka's default is 100 MiB, for batches of records; the largest
            request here is a push of `telemetry.max.bytes` (1 MiB), and what one peer may make us hold should be
            near to what is useful.
        socket_listen_backlog_size: connections that the kernel keeps until they are accepted. Kafka's default is 50,
            too few for a fleet that reconnects after a restart; the kernel cuts it to `net.core.somaxconn`.
        connections_max_idle_ms: a connection on which nothing arrives for so long is closed [ms]; within a tenth more.
        max_in_flight_requests: requests of one connection that may wait for their response to leave.
        write_high_water_bytes: unread responses of one connection from which on none of its requests is handled [B].
        queued_max_request_bytes: bytes of incomplete and waiting requests over all connections [B]; beyond, the
            connections that held most for longest are closed. Kafka's `queued.max.request.bytes`, there unbounded.
        request_receive_timeout_ms: how long a request may take from its first byte to its last [ms]. Clients give up
            earlier by themselves: Java's and franz-go's after 30 s or less, librdkafka after 60 s.
        queued_max_response_bytes: responses that the peers of all connections leave unread [B]; beyond, the connections
            that hold most of them are closed.
        max_client_descriptors: a connection whose descriptor's number is this or more is refused. The system hands out
            the lowest free number, so that it tells how many are open; those above are for everything but clients.
        accept_error_pause_ms: pause when the process is out of descriptors or memory [ms].
        close_linger_ms: how long a closing connection may take to read its last responses [ms].
        handshake_timeout_ms: how long PROXY header, TLS and SASL of one connection may take together [ms].
        max_unfinished_handshakes: connections that are not let in yet; for one more, the oldest of the address that has
            most of them is closed (`wire.handshakes`).

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

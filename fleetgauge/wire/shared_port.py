"""A port that several processes listen on (`SO_REUSEPORT`); their parent reserves it and never listens.

Linux assigns each new connection to one of the listening sockets, by a hash of its addresses. A bound socket that does
not listen gets none, so the parent's socket reserves the port for the node without taking connections. Each process
has its own listening socket: when one dies, the others get all connections from then on. If the parent kept that
socket open, its connections would wait in a backlog that no process accepts from.
"""

import errno
import socket

from fleetgauge.base.errors import InvalidConfigError


def reserve_port(name: str, host: str, port: int) -> socket.socket:
    """Reserves a port for several processes, until the socket is closed and none of them listens.

    Args:
        name: the listener's name, for the error.
        host: the address; empty for every address of the machine.
        port: 0 for any free one.

    Raises:
        InvalidConfigError: the address cannot be bound, or another process listens there; without this check, a
            process of the same user would silently get a share of the connections.
    """
    try:
        if port:
            _bound(host, port, reuse_port=False).close()
        return _bound(host, port, reuse_port=True)
    except (OSError, OverflowError) as error:
        raise cannot_bind(name, host, port, error) from error


def cannot_bind(name: str, host: str, port: int, error: Exception) -> InvalidConfigError:
    """The error for a listener's address that cannot be bound."""
    in_use = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
    hint = "; check whether another process uses the port" if in_use else ""
    return InvalidConfigError(f"listener {name} cannot bind {host or '*'}:{port}: {error}{hint}")


def _bound(host: str, port: int, *, reuse_port: bool) -> socket.socket:
    is_dual_stack = not host and socket.has_dualstack_ipv6()
    if is_dual_stack:
        family, address = socket.AF_INET6, ("::", port)
    else:
        addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, address = addresses[0][0], addresses[0][4][:2]  # type: ignore[assignment]  # host and port of either family
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not is_dual_stack)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound

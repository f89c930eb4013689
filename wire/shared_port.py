"""A port that several processes listen on (`SO_REUSEPORT`): it is reserved by their parent, which never listens.

Linux hands each new connection to one of the sockets that listen, by a hash of its addresses. A socket that is bound
and does not listen gets none, so the parent's keeps the port for the node, and swallows nothing. Each process makes its
own listening socket: when one dies, the others get all connections from that moment on. A listening socket that the
parent kept open for it would take its share of them into a backlog that nobody empties.
"""

import errno
import socket

from base.errors import InvalidConfigError


def reserve_port(name: str, host: str, port: int) -> socket.socket:
    """Binds a port for processes to share; it is theirs until the socket is closed and none of them listens.

    Args:
        name: the listener's name, for the error.
        host: the address; empty for every address of the machine.
        port: 0 for any free one.

    Raises:
        InvalidConfigError: it cannot be bound, or another process listens there: of the same user, it would otherwise
            share the connections without a word.
    """
    try:
        if port:
            _bound(host, port, reuse_port=False).close()
        return _bound(host, port, reuse_port=True)
    except (OSError, OverflowError) as error:
        raise cannot_bind(name, host, port, error) from error


def cannot_bind(name: str, host: str, port: int, error: Exception) -> InvalidConfigError:
    """One sentence on why a listener's address cannot be bound."""
    in_use = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
    hint = "; is another process using the port?" if in_use else ""
    return InvalidConfigError(f"listener {name} cannot bind {host or '*'}:{port}: {error}{hint}")


def _bound(host: str, port: int, *, reuse_port: bool) -> socket.socket:
    is_dual_stack = not host and socket.has_dualstack_ipv6()
    if is_dual_stack:
        family, address = socket.AF_INET6, ("::", port)
    else:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, address = found[0][0], found[0][4][:2]  # type: ignore[assignment]  # host and port of either family
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not is_dual_stack)
        made.bind(address)
    except BaseException:
        made.close()
        raise
    return made

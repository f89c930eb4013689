"""The connections of an exchange end with it."""

import socket

import pytest

from fleetgauge.base.exchange import _Connections


def test_a_connection_that_is_made_after_the_end_of_its_exchange_is_closed() -> None:
    exchange = _Connections()
    with socket.create_server(("127.0.0.1", 0)) as server:
        early, late = (socket.create_connection(server.getsockname()) for _ in range(2))
        with exchange._take(early), server.accept()[0] as peer:
            exchange.end()
            assert peer.recv(1) == b""
            with pytest.raises(TimeoutError, match="too late"):
                exchange._take(late)
        assert late.fileno() == -1

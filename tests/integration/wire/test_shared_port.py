"""A port that processes share: nobody else gets it, and who reserves it swallows no connection."""

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from support.waiting import PATIENCE_S

from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.wire.shared_port import reserve_port

pytestmark = pytest.mark.integration


@pytest.fixture
def reserved() -> Iterator[socket.socket]:
    with closing(reserve_port("PLAINTEXT", "127.0.0.1", 0)) as found:
        yield found


def listening_on(port: int, *, share: bool) -> socket.socket:
    return socket.create_server(("127.0.0.1", port), reuse_port=share)


def test_connections_go_to_those_that_listen_and_never_to_who_reserved_the_port(reserved: socket.socket) -> None:
    port = reserved.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    with listening_on(port, share=True) as one:
        for _ in range(50):
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S):
                one.accept()[0].close()


def test_when_one_of_those_that_listen_ends_the_other_gets_every_connection(reserved: socket.socket) -> None:
    port = reserved.getsockname()[1]
    with listening_on(port, share=True) as one:
        listening_on(port, share=True).close()
        for _ in range(50):
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S):
                one.accept()[0].close()


@pytest.mark.parametrize("share", [False, True])
def test_a_port_on_which_another_process_listens_is_refused(share: bool) -> None:
    with (
        listening_on(0, share=share) as other,
        pytest.raises(InvalidConfigError, match="another process uses the port"),
    ):
        reserve_port("PLAINTEXT", "127.0.0.1", other.getsockname()[1])


def test_a_process_that_does_not_share_cannot_take_a_reserved_port_while_somebody_listens(
    reserved: socket.socket,
) -> None:
    port = reserved.getsockname()[1]
    with listening_on(port, share=True), pytest.raises(OSError, match="in use"):
        listening_on(port, share=False)


def test_every_address_of_the_machine_can_be_reserved_and_a_wrong_one_is_named() -> None:
    with closing(reserve_port("PLAINTEXT", "", 0)) as found:
        assert found.getsockname()[1] > 0
    with pytest.raises(InvalidConfigError, match=r"cannot bind 192\.0\.2\.1:0"):
        reserve_port("PLAINTEXT", "192.0.2.1", 0)

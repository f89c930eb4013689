"""`Host` of a request to a loopback address: what a web page can have its browser send is refused."""

import pytest

from fleetgauge.http.loopback import names_this_machine


@pytest.mark.parametrize(
    "host",
    [
        "[::1].evil.example",
        "[::1]evil.example",
        "[::1]:9465.evil.example",
        "[::1",
        "::1",
        "[localhost]",
        "[127.0.0.1]",
        "[::1]]",
        "[[::1]",
        "[]",
        "127.0.0.1:9465.evil.example",
        "127.0.0.1:evil.example",
        "localhost:9465:1",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "\n[::1]",
        "[::1]\n",
    ],
)
def test_only_a_whole_address_or_localhost_with_a_port_names_this_machine(host: str) -> None:
    assert not names_this_machine(host)


@pytest.mark.parametrize(
    "host",
    ["", "localhost", "localhost:", "localhost:9465", "127.0.0.1", "10.1.2.3:80", "[::1]", "[fe80::1%25eth0]:9465"],
)
def test_addresses_and_localhost_are_served(host: str) -> None:
    assert names_this_machine(host)

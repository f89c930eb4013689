"""Which listeners serve Kafka's admin APIs: by default those that only this machine can reach."""

import pytest

from fleetgauge.base.errors import ConfigError
from fleetgauge.node.config.load import load_config

MIXED = (
    "listeners=HERE://127.0.0.1:1,SIX://[::1]:2,LOCAL://localhost:3,CLIENTS://10.0.0.5:4,ALL://0.0.0.0:5",
    "advertised.listeners=ALL://telemetry.example.com:5",
    "listener.security.protocol.map="
    + ",".join(f"{name}:PLAINTEXT" for name in ("HERE", "SIX", "LOCAL", "CLIENTS", "ALL")),
)


@pytest.mark.parametrize(
    ("overrides", "served"),
    [
        ((), {"HERE", "SIX", "LOCAL"}),
        (("admin.listeners=",), set()),
        (("admin.listeners=clients",), {"CLIENTS"}),
        (("admin.listeners=ALL,loopback",), {"ALL", "HERE", "SIX", "LOCAL"}),
        (
            (
                "listener.name.here.proxy.protocol.enable=true",
                "listener.name.here.proxy.protocol.trusted.addresses=127.0.0.1",
            ),
            {"SIX", "LOCAL"},
        ),
    ],
)
def test_loopback_alone_unless_named(overrides: tuple[str, ...], served: set[str]) -> None:
    assert load_config(overrides=(*MIXED, *overrides)).admin_listener_names() == served


def test_a_listener_that_is_called_loopback_is_not_served_for_its_name() -> None:
    named = ("listeners=LOOPBACK://10.0.0.5:1", "listener.security.protocol.map=LOOPBACK:PLAINTEXT")
    assert load_config(overrides=named).admin_listener_names() == set()


def test_a_listener_that_is_not_there_is_refused_with_a_remedy() -> None:
    with pytest.raises(
        ConfigError, match=r"admin\.listeners names EXTERNAL, but listeners has no such name: use loopback"
    ):
        load_config(overrides=(*MIXED, "admin.listeners=EXTERNAL"))

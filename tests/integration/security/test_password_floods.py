"""Floods of wrong passwords and of silent connections against a node as an operator runs it: honest clients log in."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.clients.raw_client import RawClient
from support.clients.raw_sasl import (
    NONE,
    SASL_AUTHENTICATION_FAILED,
    Flood,
    authenticate,
    handshake,
    is_served,
    log_in,
    plain,
)
from support.programs.node import Node, credential_lines
from support.waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.integration

USERS = [f"user{number}" for number in range(7)]
PASSWORD = "correct horse"
HONEST = "127.0.1.1"
PER_SECOND = 400


@pytest.fixture(scope="module")
def credentials() -> str:
    # So many iterations that the checks cannot keep up with the flood on any machine.
    lines = credential_lines(USERS[0], PASSWORD, "--mechanism", "scram-sha-256", "--iterations", "16384")
    return "".join(lines.replace(USERS[0], user) for user in USERS)


@pytest.fixture
def node(tmp_path: Path, credentials: str) -> Iterator[Node]:
    config = f"""
listener.security.protocol.map = "EXTERNAL:SASL_PLAINTEXT"
sasl.enabled.mechanisms = "PLAIN,SCRAM-SHA-256"
[exporters.console]
type = "console"
{credentials}"""
    with Node(tmp_path, "listeners=EXTERNAL://127.0.0.1:0", config=config) as running:
        yield running


def wrong_password(number: int) -> bytes:
    return handshake() + authenticate(plain(USERS[number % len(USERS)], f"wrong {number}"))


def connected(node: Node, source: str) -> RawClient:
    client = RawClient(node.port)
    client.close()
    client.socket = socket.create_connection(("127.0.0.1", node.port), PATIENCE_S, source_address=(source, 0))
    return client


def counters(node: Node) -> dict[str, Any]:
    (found,) = node.status()["connections"]
    return dict(found)


def under_way(flood: Flood) -> None:
    wait_for(lambda: flood.outcomes, "200 connections of the flood", until=lambda outcomes: outcomes.total() >= 200)


def log_in_all(node: Node, source: str) -> None:
    for user in USERS:
        with connected(node, source) as client:
            assert log_in(client, user, PASSWORD) == NONE
            assert is_served(client)


@pytest.mark.parametrize("addresses", [1, 60])
def test_all_honest_clients_log_in_while_wrong_passwords_pour_in(node: Node, addresses: int) -> None:
    sources = [f"127.0.0.{number}" for number in range(1, addresses + 1)]
    with Flood(node.port, sources, wrong_password, per_second=PER_SECOND) as flood:
        under_way(flood)
        log_in_all(node, HONEST)
    seen = flood.outcomes
    counted = wait_for(
        lambda: counters(node),
        f"the failures of {seen} to be counted",
        until=lambda found: found["failed_authentications"] >= seen["58"],
    )
    assert seen["58"] > 0
    assert counted["successful_authentications"] == len(USERS)
    assert str(NONE) not in seen
    if addresses == 1:
        assert seen["closed"] > 0
        wait_for(
            lambda: counters(node)["closed"],
            f"the ends of {seen} to be counted",
            until=lambda found: found["too_many_password_checks"] >= seen["closed"],
        )
        assert "wire.password_checks_overloaded" in node.log.read_text()


def test_a_password_that_was_right_before_does_not_wait_behind_wrong_ones_of_its_own_address(node: Node) -> None:
    log_in_all(node, HONEST)
    with Flood(node.port, [HONEST], wrong_password, per_second=PER_SECOND) as flood:
        under_way(flood)
        log_in_all(node, HONEST)
        with connected(node, "127.0.2.1") as client:
            assert log_in(client, USERS[0], "wrong") == SASL_AUTHENTICATION_FAILED
    assert counters(node)["successful_authentications"] == 2 * len(USERS)


def test_names_without_a_user_and_long_passwords_hold_up_no_honest_client(node: Node) -> None:
    def strange(number: int) -> bytes:
        return handshake() + authenticate(plain(f"nobody{number}", "x" * (15_000 if number % 2 else 300_000)))

    with Flood(node.port, ["127.0.0.1"], strange, per_second=100) as flood:
        under_way(flood)
        log_in_all(node, HONEST)
    assert str(NONE) not in flood.outcomes


def test_a_password_is_checked_again_after_the_user_has_another(node: Node, credentials: str) -> None:
    log_in_all(node, HONEST)
    others = credential_lines(USERS[0], "another password", "--mechanism", "scram-sha-256")
    node.reread(node.config_file.read_text().replace(credentials, others))
    for user, password, code in (
        (USERS[0], PASSWORD, SASL_AUTHENTICATION_FAILED),
        (USERS[0], "another password", NONE),
        (USERS[1], PASSWORD, SASL_AUTHENTICATION_FAILED),
    ):
        with connected(node, HONEST) as client:
            assert log_in(client, user, password) == code


def test_sessions_of_users_that_are_removed_or_changed_end_with_the_reread_and_others_stay(
    node: Node, credentials: str
) -> None:
    clients = {user: connected(node, HONEST) for user in USERS[:3]}
    for user, client in clients.items():
        assert log_in(client, user, PASSWORD) == NONE
        assert is_served(client)
    removed, changed, same = USERS[:3]
    others = credential_lines(changed, "another password", "--mechanism", "scram-sha-256")
    kept = credentials[credentials.index(f'[sasl.users."{same}"]') :]
    node.reread(node.config_file.read_text().replace(credentials, others + kept))
    for user in (removed, changed):
        with clients[user] as client, pytest.raises(ConnectionError):
            client.receive_frame()
    with clients[same] as client:
        assert is_served(client)
    ends = wait_for(
        lambda: counters(node)["closed"], "both ends", until=lambda found: found.get("credential_revoked", 0) >= 2
    )
    assert ends["credential_revoked"] == 2
    for user, password, code in ((removed, PASSWORD, 58), (changed, "another password", 0)):
        with connected(node, HONEST) as client:
            assert log_in(client, user, password) == code

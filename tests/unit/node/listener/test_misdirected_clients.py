"""Applications pointed at the telemetry listener: one log line per client and hour, and a bounded register."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from fleetgauge.base.clock import MockTime
from fleetgauge.node.listener.misdirected_clients import (
    LATEST,
    LOG_AGAIN_MS,
    MAX_CHARACTERS,
    MAX_CLIENTS,
    MAX_LINES,
    MisdirectedClients,
)


def channel(address: str = "10.1.2.3") -> Any:
    return SimpleNamespace(
        client_address=address,
        listener_name="CLIENTS",
        client_software_name="apache-kafka-java",
        client_software_version="4.3.1",
    )


@pytest.fixture
def clock() -> MockTime:
    return MockTime()


@pytest.fixture
def clients(clock: MockTime) -> MisdirectedClients:
    return MisdirectedClients(clock)


def test_the_line_says_who_asked_for_what_and_what_to_do(clients: MisdirectedClients) -> None:
    with capture_logs() as logs:
        clients.note(channel(), "orders", "Produce")
    (line,) = logs
    assert "set the application's bootstrap.servers to your Kafka brokers" in line.pop("message")
    assert line == {
        "event": "listener.records_requested",
        "log_level": "warning",
        "client_id": "orders",
        "client_address": "10.1.2.3",
        "client_software": "apache-kafka-java/4.3.1",
        "listener": "CLIENTS",
        "asked_for": "Produce",
        "requests": 1,
    }


def test_a_client_is_logged_once_an_hour(clients: MisdirectedClients, clock: MockTime) -> None:
    with capture_logs() as logs:
        for _ in range(3):
            clients.note(channel(), "orders", "Metadata of topic orders")
            clock.sleep(LOG_AGAIN_MS / 2)
        clients.note(channel("10.1.2.4"), "orders", "Produce")
    assert [(line["client_address"], line["requests"]) for line in logs] == [
        ("10.1.2.3", 1),
        ("10.1.2.3", 3),
        ("10.1.2.4", 1),
    ]


def test_a_jump_of_the_wall_clock_brings_no_line(clients: MisdirectedClients, clock: MockTime) -> None:
    with capture_logs() as logs:
        clients.note(channel(), "orders", "Produce")
        clock.jump_wall_clock(10 * LOG_AGAIN_MS)
        clients.note(channel(), "orders", "Produce")
    assert len(logs) == 1


def test_any_number_of_ids_write_a_bounded_number_of_lines_and_the_rest_is_counted(
    clients: MisdirectedClients, clock: MockTime
) -> None:
    with capture_logs() as logs:
        for number in range(5 * MAX_CLIENTS):
            clients.note(channel(), f"id-{number}", "Produce")
        assert len(logs) == MAX_LINES
        clock.sleep(LOG_AGAIN_MS)
        clients.note(channel(), "orders", "Produce")
    assert len(logs) == MAX_LINES + 1
    assert logs[-1]["clients_not_logged"] == 5 * MAX_CLIENTS - MAX_LINES
    assert clients.status()["remembered_clients"] == MAX_CLIENTS
    assert clients.requests == 5 * MAX_CLIENTS + 1


def test_the_longest_ids_and_topics_are_cut(clients: MisdirectedClients) -> None:
    with capture_logs() as logs:
        clients.note(channel(), "i" * 32_767, "t" * 32_767)
    assert (len(logs[0]["client_id"]), len(logs[0]["asked_for"])) == (MAX_CHARACTERS, MAX_CHARACTERS)
    assert clients.has_asked("i" * 32_767, "10.1.2.3")
    assert sum(sys.getsizeof(value) for value in clients.status()["latest_clients"][0].values()) < 2_000


def test_the_status_lists_the_latest_clients_first(clients: MisdirectedClients, clock: MockTime) -> None:
    for number in range(LATEST + 5):
        clients.note(channel(), f"id-{number}", "FindCoordinator")
        clock.sleep(1)
    clients.note(channel(), "id-0", "Produce")
    latest = clients.status()["latest_clients"]
    assert [each["client_id"] for each in latest] == ["id-0", *(f"id-{LATEST + 4 - at}" for at in range(LATEST - 1))]
    assert (latest[0]["requests"], latest[0]["asked_for"]) == (2, "Produce")
    assert latest[0]["last_at"] == clock.microseconds()


def test_a_client_that_has_been_silent_for_longest_is_dropped_first(clients: MisdirectedClients) -> None:
    clients.note(channel(), "kept", "Produce")
    clients.note(channel(), "dropped", "Produce")
    clients.note(channel(), "kept", "Produce")
    for number in range(MAX_CLIENTS - 1):
        clients.note(channel(), f"id-{number}", "Produce")
    assert clients.has_asked("kept", "10.1.2.3")
    assert not clients.has_asked("dropped", "10.1.2.3")
    assert not clients.has_asked("kept", "10.9.9.9")


def test_a_client_without_an_id_is_one_too(clients: MisdirectedClients) -> None:
    clients.note(channel(), None, "Produce")
    assert clients.has_asked("", "10.1.2.3")

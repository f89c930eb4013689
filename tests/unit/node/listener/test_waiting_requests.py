"""Who is served next of those who wait for an answer of an admin API, and who is closed beyond the bound."""

from typing import Any

from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.node.listener.apis.waiting_requests import Waiting, WaitingRequests
from fleetgauge.wire.messages.codec import Request


class Channel:
    def __init__(self, principal: str) -> None:
        self.principal = KafkaPrincipal("User", principal)


def add(waiting: WaitingRequests, channel: Any, number: int, held_bytes: int = 10) -> Any:
    return waiting.add(Waiting(channel, Request(32, 4, number, "test", b""), held_bytes))


def served(waiting: WaitingRequests) -> list[int]:
    found = []
    while waiting:
        found.append(waiting.next().request.correlation_id)
    return found


def test_principals_take_turns_and_so_do_the_connections_of_each() -> None:
    waiting, flood, second, operator = WaitingRequests(1_000), Channel("a"), Channel("a"), Channel("ops")
    for number in range(4):
        add(waiting, flood, number)
    add(waiting, second, 10)
    add(waiting, operator, 20)
    add(waiting, operator, 21)
    assert served(waiting) == [0, 20, 10, 21, 1, 2, 3]


def test_beyond_the_bound_the_connection_with_the_most_is_closed_not_the_latest() -> None:
    waiting, flood, second, operator = WaitingRequests(100), Channel("a"), Channel("a"), Channel("ops")
    assert add(waiting, second, 10, 30) == []
    assert [add(waiting, flood, number) for number in range(7)] == [[]] * 7
    assert add(waiting, operator, 20) == [flood]
    assert add(waiting, operator, 21, 60) == [], "what the flood held is free"
    assert add(waiting, operator, 22) == [operator]
    assert served(waiting) == [10]


def test_as_many_connections_are_closed_as_the_bound_needs() -> None:
    """One large request must not displace a small one: many principals could exceed the bound many times."""
    waiting, small = WaitingRequests(100), [Channel("a") for _ in range(9)]
    assert [add(waiting, each, number) for number, each in enumerate(small)] == [[]] * 9
    for number in range(10):
        large = Channel(f"b{number}")
        closed = add(waiting, large, 20 + number, 50)
        assert closed == (small[:4] if number == 0 else closed)
        assert waiting._held_bytes <= 100
    assert served(waiting)
    assert waiting._held_bytes == 0


def test_a_connection_that_has_ended_is_not_answered_and_holds_nothing() -> None:
    waiting, flood, operator = WaitingRequests(100), Channel("a"), Channel("ops")
    for number in range(10):
        add(waiting, flood, number)
    channels: list[Any] = [flood, flood, operator]
    for channel in channels:
        waiting.forget(channel)
    assert not waiting
    assert add(waiting, operator, 20, 100) == []
    assert served(waiting) == [20]

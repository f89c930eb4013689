"""Unfinished handshakes: how many, how long, and who goes first."""

from collections.abc import Iterator

from fleetgauge.wire.context.handshakes import Handshake, Handshakes, HandshakeStage


class Peers:
    def __init__(self, **settings: int) -> None:
        self.handshakes = Handshakes(**settings)
        self.ended: list[tuple[str, str]] = []

    def begin(self, name: str, now_ms: int, address: str = "10.0.0.1") -> Handshake:
        return self.handshakes.begin(lambda reason: self.ended.append((name, reason)), now_ms, address)


def test_the_oldest_makes_room_for_one_more() -> None:
    peers = Peers(max_unfinished=2, timeout_ms=100)
    for number, name in enumerate("abc"):
        peers.begin(name, number)
    assert peers.ended == [("a", "too_many_handshakes")]
    assert len(peers.handshakes) == 2


def test_who_is_let_in_makes_room_and_is_never_ended() -> None:
    handshakes = Handshakes(max_unfinished=1, timeout_ms=100)
    ended: list[str] = []
    first = handshakes.begin(ended.append, 0)
    first.finish()
    handshakes.begin(ended.append, 1)
    first.finish()
    handshakes.expire(100)
    assert ended == []
    handshakes.expire(101)
    assert ended == ["tls_timeout"]


def test_who_takes_too_long_is_ended_with_what_it_was_at() -> None:
    handshakes = Handshakes(max_unfinished=9, timeout_ms=100)
    ended: list[str] = []
    for stage in HandshakeStage:
        handshakes.begin(ended.append, 0).stage = stage
    handshakes.expire(99)
    assert ended == []
    handshakes.expire(100)
    assert ended == ["proxy_header_timeout", "tls_timeout", "sasl_timeout"]
    assert len(handshakes) == 0


def test_a_stop_ends_all() -> None:
    peers = Peers(max_unfinished=9, timeout_ms=100)
    peers.begin("a", 0)
    peers.begin("b", 0)
    peers.handshakes.end_all("listener_stopped")
    assert peers.ended == [("a", "listener_stopped"), ("b", "listener_stopped")]


def test_the_network_with_most_handshakes_makes_room_with_its_oldest() -> None:
    peers = Peers(max_unfinished=4, timeout_ms=100)
    peers.begin("honest", 0, "10.0.0.1")
    for number, address in enumerate(("2001:db8::1", "2001:db8::2", "2001:db8::3", "10.0.0.2", "10.0.0.3"), 1):
        peers.begin(str(number), number, address)
    assert [name for name, _ in peers.ended] == ["1", "2"]
    for number in range(6, 9):
        peers.begin(str(number), number, "10.0.0.9")
    assert [name for name, _ in peers.ended] == ["1", "2", "honest", "3", "6"], "of equals the oldest goes"


def test_a_client_that_waits_for_the_node_is_not_ended_to_make_room() -> None:
    peers = Peers(max_unfinished=2, timeout_ms=100)
    waiting = peers.begin("waiting", 0)
    waiting.wait_for_node()
    for name in "abc":
        peers.begin(name, 1)
    assert [name for name, _ in peers.ended] == ["a", "b"]
    waiting.wait_for_client()
    peers.begin("d", 2)
    assert [name for name, _ in peers.ended] == ["a", "b", "c"], "it is the last of its network now"
    peers.handshakes.expire(100)
    assert ("waiting", "tls_timeout") in peers.ended
    waiting.wait_for_client()
    peers.begin("e", 200)
    peers.begin("f", 200)
    assert len(peers.handshakes) == 2, "one that has ended does not come back"


def test_behind_a_load_balancer_the_clients_own_network_counts() -> None:
    peers = Peers(max_unfinished=3, timeout_ms=100)
    peers.begin("a", 0).identify("203.0.113.1")
    peers.begin("b", 0).identify("203.0.113.2")
    peers.begin("c", 0).identify("203.0.113.2")
    peers.begin("d", 0)
    assert peers.ended == [("b", "too_many_handshakes")]


class CountedSlots(dict[Handshake, None]):
    """Counts the slots that iteration visits; as in CPython's `dict`, a removed key leaves its slot behind."""

    def __init__(self) -> None:
        super().__init__()
        self._slots: list[Handshake] = []
        self.visited = 0

    def __setitem__(self, key: Handshake, value: None) -> None:
        self._slots.append(key)
        super().__setitem__(key, value)

    def __iter__(self) -> Iterator[Handshake]:
        for key in self._slots:
            self.visited += 1
            if key in self:
                yield key


def test_ending_very_many_handshakes_at_once_takes_linear_work() -> None:
    """`expire` visits each handshake once: 2,000 that end together take 2,000 visits, and not two million."""
    handshakes = Handshakes(max_unfinished=5_000, timeout_ms=100)
    slots = handshakes._unfinished = CountedSlots()
    ended: list[str] = []
    for number in range(2_000):
        handshakes.begin(ended.append, 0, f"10.0.{number >> 8}.{number & 255}")
    later = handshakes.begin(ended.append, 1)
    handshakes.expire(100)
    assert len(ended) == 2_000
    assert len(handshakes) == 1
    assert slots.visited <= 2_001
    later.finish()


def test_a_handshake_that_another_ones_end_finished_is_not_ended_again() -> None:
    handshakes = Handshakes(max_unfinished=9, timeout_ms=100)
    ended: list[str] = []
    second: list[Handshake] = []

    def end(reason: str) -> None:
        ended.append(reason)
        second[0].finish()

    handshakes.begin(end, 0)
    second.append(handshakes.begin(ended.append, 0))
    handshakes.expire(100)
    assert ended == ["tls_timeout"]

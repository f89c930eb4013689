"""Unfinished handshakes: how many, how long, and who goes first."""

from wire.handshakes import Handshakes, HandshakeStage


class Peers:
    def __init__(self, **settings: int) -> None:
        self.handshakes = Handshakes(**settings)
        self.ended: list[tuple[str, str]] = []

    def begin(self, name: str, now_ms: int) -> object:
        return self.handshakes.begin(lambda reason: self.ended.append((name, reason)), now_ms)


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

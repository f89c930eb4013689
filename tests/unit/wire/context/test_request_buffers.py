"""Which connections are closed when requests that no handler has seen take too much memory."""

from dataclasses import dataclass, field

from fleetgauge.wire.close_reason import CloseReason
from fleetgauge.wire.context.request_buffers import RequestBuffers

KIB, MIB = 1 << 10, 1 << 20
BOUND = 64 * MIB


@dataclass(eq=False)
class Held:
    """A connection, as the buffers know it."""

    buffers: RequestBuffers
    client_address: str
    last_active_ms: int
    buffered_bytes: int
    listener_name: str = "EXTERNAL"
    is_held_up: bool = False
    is_muted: bool = False
    reasons: list[CloseReason] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.buffers.note(self, 0, self.buffered_bytes)  # type: ignore[arg-type]

    def shed(self, reason: CloseReason, event: str, detail: str) -> None:
        assert event
        assert detail
        self.reasons.append(reason)
        self.buffers.note(self, self.buffered_bytes, 0)  # type: ignore[arg-type]
        self.buffered_bytes = 0


def buffers() -> RequestBuffers:
    return RequestBuffers(BOUND, 120_000)


def closed(held: list[Held]) -> int:
    return sum(bool(each.reasons) for each in held)


def test_a_large_push_that_is_just_arriving_stays_while_little_ones_that_are_parked_go() -> None:
    """However many addresses they come from."""
    bound = buffers()
    parked = [Held(bound, f"192.0.{n // 256}.{n % 256}", 0, 8 * KIB) for n in range(BOUND // (8 * KIB))]
    client = Held(bound, "198.51.100.1", 10_000, MIB)
    bound.close_heaviest(10_020)
    assert not client.reasons
    assert set(parked[0].reasons) == {CloseReason.RECEIVE_BUFFERS_FULL}
    assert bound.held_bytes <= BOUND - BOUND // 8
    assert closed(parked) * 8 * KIB <= BOUND // 8 + MIB + 8 * KIB, "no more than are needed"


def test_an_address_is_weighed_as_a_whole() -> None:
    """Thousands of connections of one address that hold little are heavier than a slow client with a large push."""
    bound = buffers()
    parked = [Held(bound, "192.0.2.1", 9_000, 16 * KIB) for _ in range(BOUND // (16 * KIB))]
    slow = Held(bound, "198.51.100.1", 0, MIB)
    bound.close_heaviest(10_000)
    assert not slow.reasons
    assert closed(parked) > 0


def test_of_a_fleet_behind_one_address_the_heaviest_go_and_the_others_stay() -> None:
    bound = buffers()
    parked = [Held(bound, "192.0.2.1", 0, 4 * MIB) for _ in range(16)]
    fleet = [Held(bound, "192.0.2.1", 9_950 + n % 50, 2 * KIB) for n in range(1_000)]
    bound.close_heaviest(10_000)
    assert closed(fleet) == 0
    assert closed(parked) == 3, "an eighth, and what the fleet holds"


def test_neighbours_of_an_ipv6_network_are_one_address() -> None:
    bound = buffers()
    parked = [Held(bound, f"2001:db8::{n:x}", 9_000, 64 * KIB) for n in range(1_024)]
    slow = Held(bound, "2001:db8:0:1::1", 0, MIB)
    bound.close_heaviest(10_000)
    assert not slow.reasons
    assert closed(parked) > 0


def test_of_equals_the_oldest_goes() -> None:
    bound = buffers()
    held = [Held(bound, "192.0.2.1", 0, 16 * MIB) for _ in range(5)]
    bound.close_heaviest(0)
    assert [closed([each]) for each in held] == [1, 1, 0, 0, 0]


def test_clients_that_a_quota_holds_stay_while_others_park_as_much() -> None:
    """Five requests each, sent before the client learned of its throttle time of two minutes; others wait for 1 s."""
    bound = buffers()
    throttled = [Held(bound, f"192.0.2.{n}", 0, 5 * 64 * KIB, is_held_up=True, is_muted=True) for n in range(100)]
    parked = [Held(bound, f"198.51.100.{n}", 119_000, 3 * 64 * KIB) for n in range(200)]
    bound.close_heaviest(120_000)
    assert closed(throttled) == 0
    assert bound.held_bytes <= BOUND - BOUND // 8
    assert closed(parked) > 0


def test_held_connections_of_one_address_are_closed_when_they_alone_fill_the_memory() -> None:
    bound = buffers()
    throttled = [Held(bound, "192.0.2.1", 0, MIB, is_held_up=True, is_muted=True) for _ in range(64)]
    arriving = Held(bound, "198.51.100.1", 119_990, MIB)
    bound.close_heaviest(120_000)
    assert closed(throttled) == 9
    assert not arriving.reasons


def test_requests_that_take_too_long_are_ended_in_one_pass() -> None:
    bound = buffers()
    late = [Held(bound, "192.0.2.1", n, 1) for n in range(1_000)]
    late[5].is_held_up = True
    in_time = Held(bound, "192.0.2.1", 2_000, 1)
    bound.expire(121_000)
    assert [each.reasons for each in late].count([CloseReason.REQUEST_UNFINISHED]) == 999
    assert not late[5].reasons
    assert not in_time.reasons
    late[5].is_held_up = False
    bound.expire(240_999)
    assert not late[5].reasons, "its time began again"
    bound.expire(241_000)
    assert late[5].reasons == [CloseReason.REQUEST_UNFINISHED]


def test_what_is_held_is_told_by_listener() -> None:
    bound = buffers()
    Held(bound, "192.0.2.1", 0, 5)
    Held(bound, "192.0.2.1", 0, 7, listener_name="INTERNAL")
    assert (bound.held_by("EXTERNAL"), bound.held_by("INTERNAL"), bound.held_bytes) == (5, 7, 12)

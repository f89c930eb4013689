"""How bytes arrive, who sends them on which connection, and how connections end."""

import uuid

import zstandard
from golden.scenarios.pushes import begin
from golden.scenarios.scenario import EVERY_SECOND, REFUSING, SMALL, scenario
from golden.session import Session
from support.clients.raw_client import ZSTD, Subscription, framed, header, parse_get
from support.payloads.payloads import metrics_data

FSYNC = '"push.log.flush" = "fsync"\n'


def ids(session: Session, on: str, count: int, start: int = 1) -> list[Subscription]:
    """Subscriptions of several instances, asked for in one chunk."""
    frames = [session.get_frame(uuid.UUID(int=number << 66 | 5)) for number in range(start, start + count)]
    return [parse_get(answer[5:]) for answer in session.send(on, b"".join(frames), "Gets")]


@scenario()
def byte_by_byte(session: Session) -> None:
    """Requests that arrive a byte at a time, and in pieces that straddle frames."""
    session.connect("a")
    session.send("a", session.versions_frame(), cut=[1])
    (answer,) = session.send("a", session.get_frame(), cut=[1])
    subscription = parse_get(answer[5:])
    session.send("a", session.push_frame(subscription, SMALL), cut=[1])
    session.advance(1000)
    frames = session.push_frame(subscription, SMALL) + session.push_frame(subscription, SMALL)
    session.send("a", frames + session.get_frame(subscription.client_instance_id), cut=[3, 1, 150, 7])


@scenario(REFUSING + EVERY_SECOND)
def many_frames_a_chunk(session: Session) -> None:
    """Hundreds of frames in one chunk: answers in order, pushes of one iteration in one commit."""
    session.connect("a")
    known = ids(session, "a", 150)
    session.send("a", b"".join(session.push_frame(each, SMALL) for each in known), "150 pushes")
    session.advance(1000)
    mixed = [
        *(session.push_frame(known[0], SMALL), session.versions_frame(), session.push_frame(known[0], SMALL)),
        *(session.push_frame(known[1], SMALL), session.metadata_frame(), session.push_frame(known[2], b"\x0f")),
        *(session.push_frame(known[3], None), session.get_frame(known[3].client_instance_id)),
    ]
    session.send("a", b"".join(mixed), "pushes between other requests")
    session.advance(1000)
    large = zstandard.compress(metrics_data(400))
    data = b"".join(session.push_frame(each, large, compression_type=ZSTD) for each in known[:40])
    session.send("a", data, "more bytes than one turn takes")
    session.send("a", data[:30], "and a cut one")
    session.do("end_input", of="a")


@scenario('"max.in.flight.requests.per.connection" = 4\n' + FSYNC + EVERY_SECOND)
def in_flight_bound(session: Session) -> None:
    """No more than four requests wait for their answers; those behind wait unread."""
    session.connect("a", "b")
    known = ids(session, "a", 10)
    session.do("hold_threads")
    session.send("a", b"".join(session.push_frame(each, SMALL) for each in known), "10 pushes")
    session.send("b", session.get_frame(), "others are served")
    session.do("release_threads")


@scenario()
def several_clients_over_one_connection(session: Session) -> None:
    """Three instances on one connection keep their own intervals and their own ends; all leave with it."""
    session.connect("a")
    one, two, three = ids(session, "a", 3)
    session.push("a", one, SMALL)
    session.advance(400)
    session.push("a", two, SMALL)
    session.advance(600)
    session.push("a", one, SMALL)
    session.push("a", two, SMALL, "too early")
    session.push("a", three, SMALL, terminating=True)
    session.push("a", three, SMALL, "over")
    session.push("a", one, SMALL, "with the subscription of another", subscription_id=two.subscription_id)
    session.do("clients")
    session.do("reset", of="a")
    session.do("clients")


@scenario()
def one_client_over_several_connections(session: Session) -> None:
    """Seats: a client's requests on a new connection, on six of them, back on the first, and after each has ended."""
    subscription = begin(session)
    session.push("a", subscription, SMALL)
    for name in "bcdef":
        session.connect(name)
        session.push(name, subscription, SMALL, "right away")
        session.push(name, subscription, SMALL, "and again")
        session.get(name, subscription.client_instance_id)
        session.advance(300)
        session.push(name, subscription, SMALL, "after 300 ms", terminating=name in "ef")
    for name in "abcdef":
        session.push(name, subscription, SMALL, f"on {name}")
        session.advance(150)
    session.do("reset", of="b")
    session.do("end_input", of="c")
    session.advance(2500)
    for name in "aefd":
        session.push(name, subscription, SMALL, f"on {name}")
    session.push("e", subscription, SMALL, terminating=True)
    session.push("d", subscription, SMALL, terminating=True)
    session.push("d", subscription, SMALL)
    session.do("clients")
    for name in "adef":
        session.do("reset", of=name)
    session.do("clients")
    session.connect("g")
    session.push("g", subscription, SMALL, "comes back")


@scenario()
def same_id_of_another_sender(session: Session) -> None:
    """Two senders under one instance id: by address, by client id, by software; each has its own interval."""
    subscription = begin(session)
    session.push("a", subscription, SMALL)
    session.connect("other address", at="10.0.0.2")
    session.push("other address", subscription, SMALL)
    session.get("other address", subscription.client_instance_id)
    session.push("other address", subscription, SMALL)
    session.connect("other client id")
    session.push("other client id", subscription, SMALL, client_id="other")
    session.get("other client id", subscription.client_instance_id, client_id="other")
    session.connect("other software")
    session.send("other software", session.versions_frame("librdkafka", "2.16.0"))
    session.push("other software", subscription, SMALL)
    session.push("a", subscription, SMALL, "too early")
    session.do("clients")
    session.advance(1000)
    for name in ("a", "other address", "other software"):
        session.push(name, subscription, SMALL, f"on {name}", terminating=name == "a")
    session.push("a", subscription, SMALL, "over")
    session.do("reset", of="a")
    session.do("clients")


@scenario(FSYNC + EVERY_SECOND)
def connection_ends_before_the_answer(session: Session) -> None:
    """Pushes whose connection is reset, or whose peer has ended its input, while they wait for the log."""
    session.connect("a", "b", "c")
    first, second, third = ids(session, "a", 1) + ids(session, "b", 1, 2) + ids(session, "c", 1, 3)
    session.do("hold_threads")
    session.push("a", first, SMALL)
    session.push("b", second, SMALL)
    session.push("c", third, SMALL, terminating=True)
    session.do("reset", of="a")
    session.do("end_input", of="b")
    session.do("end_input", of="c")
    session.do("release_threads")
    session.connect("d")
    session.push("d", first, SMALL, "the same client, at once")


@scenario()
def push_and_end_in_one_iteration(session: Session) -> None:
    """A push and the end of its connection come together."""
    session.connect("a", "b", "c")
    first, second, third = ids(session, "a", 1) + ids(session, "b", 1, 2) + ids(session, "c", 1, 3)
    session.together(
        [
            ("a", session.push_frame(first, SMALL)),
            ("a", "reset"),
            ("b", session.push_frame(second, SMALL)),
            ("b", "end_input"),
            ("c", session.push_frame(third, SMALL)[:40]),
            ("c", "end_input"),
        ]
    )
    session.connect("d")
    session.push("d", first, SMALL)
    session.push("d", second, SMALL)
    session.do("clients")


@scenario(REFUSING + EVERY_SECOND)
def several_connections_in_one_iteration(session: Session) -> None:
    """Pushes of several connections share a commit; a refused one among them is answered as it is."""
    session.connect("a", "b", "c")
    first, second, third = ids(session, "a", 1) + ids(session, "b", 1, 2) + ids(session, "c", 1, 3)
    for _ in range(2):
        session.together(
            [
                ("a", session.push_frame(first, SMALL)),
                ("b", session.push_frame(second, b"\x0f")),
                ("c", session.push_frame(third, zstandard.compress(SMALL), compression_type=ZSTD)),
                ("a", session.push_frame(first, SMALL)),
            ]
        )
        session.advance(1000)


@scenario()
def peer_that_does_not_read(session: Session) -> None:
    """Answers pile up until nothing more is read of that peer; when it reads, all is handled in order."""
    session.connect("a", "b")
    subscription = session.get("b")
    topics = [f"topic-{number:04}" for number in range(400)]
    session.do("peer_reads", of="a", reads=False)
    chunk = session.metadata_frame(*topics) + session.push_frame(subscription, SMALL)
    for _ in range(8):
        session.send("a", chunk, "Metadata requests and pushes", times=5)
        session.advance(1000)
    session.push("b", subscription, SMALL, "others are served")
    session.do("peer_reads", of="a", reads=True)
    session.advance(1000)


@scenario('"queued.max.response.bytes" = 1048576\n"connections.max.idle.ms" = 20000\n' + EVERY_SECOND)
def unread_answers_beyond_the_bound(session: Session) -> None:
    """Peers that read nothing are closed: the one that holds most when the bound is crossed, others when they idle."""
    session.connect("a", "b", "d", "e", "f", "c")
    topics = [f"topic-{number:04}" for number in range(400)]
    for name in "abdef":
        session.do("peer_reads", of=name, reads=False)
    for name in "abdef":
        session.send(name, session.metadata_frame(*topics), times=35 if name == "d" else 30)
    session.push("c", session.get("c"), SMALL, "others are served")
    session.advance(30_000)


@scenario('"connections.max.idle.ms" = 10000\n' + EVERY_SECOND)
def idle_connections(session: Session) -> None:
    """A connection on which nothing arrives is closed after connections.max.idle.ms, not before."""
    subscription = begin(session)
    session.connect("b")
    session.advance(6000)
    session.push("a", subscription, SMALL)
    session.advance(3999)
    session.advance(1001, "one was silent since its accept")
    session.advance(4999)
    session.advance(1001)


@scenario('"request.receive.timeout.ms" = 2000\n"queued.max.request.bytes" = 4096\n' + EVERY_SECOND)
def requests_that_do_not_end(session: Session) -> None:
    """Half a request is closed after request.receive.timeout.ms; those that hold most, when all hold too much."""
    subscription = begin(session)
    frame = session.push_frame(subscription, SMALL)
    session.send("a", frame[:50])
    session.advance(1500)
    session.send("a", frame[50:60])
    session.advance(700)
    session.connect("b", "c", "d")
    half = framed(header(72, 0, 5, "golden") + bytes(3000))[:2500]
    session.send("b", half)
    session.send("c", half[:1000])
    session.send("d", half[:1500])
    session.advance(2500)


@scenario('"max.connections.per.ip" = 2\n"max.connections" = 4\n' + EVERY_SECOND)
def connection_limits(session: Session) -> None:
    """A third connection of an address is refused; a fifth of all waits until one ends."""
    session.connect("a", "b", "c", at="10.0.0.1")
    session.connect("d", "e", at="10.0.0.2")
    session.connect("f", at="10.0.0.3")
    session.advance(1000)
    session.do("reset", of="a")
    session.push("f", session.get("f"), SMALL)
    session.do("reset", of="d")
    session.connect("g", at="10.0.0.1")
    session.get("g")


@scenario()
def instances_expire(session: Session) -> None:
    """An instance of which nothing comes is forgotten after a minute, though connected; it is listed as vanished."""
    subscription = begin(session)
    session.push("a", subscription, SMALL)
    session.advance(59_000)
    session.do("clients")
    session.advance(2_000)
    session.do("clients")
    session.push("a", subscription, SMALL, "comes back without a Get")
    session.do("reset", of="a")
    session.do("clients")
    session.advance(900_000)
    session.do("clients")


@scenario('"telemetry.client.instances.max" = 3\n' + EVERY_SECOND)
def more_instances_than_are_kept(session: Session) -> None:
    """The instance that was used longest ago makes room."""
    session.connect("a")
    known = ids(session, "a", 5)
    for each in (*known, known[0], known[1]):
        session.push("a", each, SMALL)
        session.advance(100)
    session.do("clients")


@scenario(FSYNC + EVERY_SECOND)
def stop_with_pushes_in_flight(session: Session) -> None:
    """A stop answers what was read, handles nothing more, and closes every connection."""
    session.connect("a", "b", "c")
    first, second = ids(session, "a", 1) + ids(session, "b", 1, 2)
    session.do("hold_threads")
    session.push("a", first, SMALL)
    session.send("b", session.push_frame(second, SMALL) + session.push_frame(second, SMALL)[:20])
    session.do("stop", release_threads_after_ms=100)


@scenario()
def stop_with_a_peer_that_does_not_read(session: Session) -> None:
    """A stop waits for such a peer no longer than it is given."""
    session.connect("a")
    subscription = session.get("a")
    session.do("peer_reads", of="a", reads=False)
    session.push("a", subscription, SMALL)
    session.do("stop", within_ms=3000)

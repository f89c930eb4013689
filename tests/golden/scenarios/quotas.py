"""Quotas, bounds and what changes while clients push."""

import uuid

from golden.scenarios.connections import ids
from golden.scenarios.pushes import begin
from golden.scenarios.scenario import EVERY_SECOND, REFUSING, SMALL, scenario
from golden.session import Session
from support.payloads.payloads import metrics_data

REQUEST_QUOTA = '[quotas."clients/<default>"]\nrequest_percentage = 1\n'
"""With the windows by default, 11 of 1 s, one percent of a thread is 110 ms."""


@scenario(EVERY_SECOND + REQUEST_QUOTA)
def request_quota(session: Session) -> None:
    """Every answer says how long its client is held; the connection is not read meanwhile; then it goes on."""
    session.do("tick", ms=30)
    session.connect("a")
    session.send("a", session.versions_frame())
    subscription = session.get("a")
    for _ in range(6):
        session.push("a", subscription, SMALL)
        session.advance(1000)
    session.do("metrics")
    session.advance(60_000)
    session.push("a", subscription, SMALL, "after a rest")


@scenario(EVERY_SECOND + REQUEST_QUOTA)
def request_quota_and_what_waits(session: Session) -> None:
    """Frames behind one that crosses the quota wait until the hold is over; other client ids are served; a held peer
    ends its connection."""
    session.do("tick", ms=100)
    session.connect("a", "b", "c")
    frames = [session.get_frame(uuid.UUID(int=number << 66 | 5)) for number in range(1, 6)]
    session.send("a", b"".join(frames), "five Gets")
    session.push("b", session.get("b", client_id="other"), SMALL, client_id="other")
    for _ in range(12):
        session.advance(1000)
    session.do("metrics")
    session.send("c", session.get_frame() + session.get_frame())
    session.do("reset", of="c")
    session.send("a", frames[0] + frames[1])
    session.do("end_input", of="a")
    session.advance(30_000)


@scenario(
    REFUSING
    + '"max.in.flight.requests.per.connection" = 2\n"push.log.flush" = "fsync"\n'
    + EVERY_SECOND
    + REQUEST_QUOTA
)
def request_quota_with_fsync(session: Session) -> None:
    """A push that waits for the disk is throttled from its request on; its answer comes while the channel is held."""
    session.do("tick", ms=80)
    subscription = begin(session)
    session.do("hold_threads")
    session.send("a", session.push_frame(subscription, SMALL) + session.push_frame(subscription, SMALL))
    session.advance(100)
    session.do("release_threads")
    session.advance(20_000)
    session.push("a", subscription, b"\x0f", "refused, and recorded too")
    session.advance(60_000)


@scenario(EVERY_SECOND)
def request_quota_comes_and_goes(session: Session) -> None:
    """A quota is set while clients are connected, raised while one is held, and removed."""
    session.do("tick", ms=50)
    subscription = begin(session)
    session.push("a", subscription, SMALL, "no quota: nothing is measured")
    session.do("reconfigure", config=(EVERY_SECOND + REQUEST_QUOTA).splitlines())
    for _ in range(4):
        session.advance(1000)
        session.push("a", subscription, SMALL)
    session.do("reconfigure", config=(EVERY_SECOND + REQUEST_QUOTA.replace("= 1", "= 1000")).splitlines())
    session.advance(1000)
    session.push("a", subscription, SMALL)
    session.do("reconfigure", config=EVERY_SECOND.splitlines())
    session.advance(15_000)
    session.push("a", subscription, SMALL)
    session.push("a", subscription, SMALL, "too early")


@scenario(EVERY_SECOND + '[quotas."clients/<default>"]\ntelemetry_push_rate = 2\n')
def push_rate_quota(session: Session) -> None:
    """Four instances share two pushes a second: intervals are doubled at the next subscription, and come back."""
    session.connect("a")
    known = ids(session, "a", 4)
    for second in range(12):
        for number, each in enumerate(known):
            if session.push("a", each, SMALL, f"second {second}, client {number}") == 117:
                known[number] = session.get("a", each.client_instance_id)
        session.advance(1000)
    session.do("metrics")
    session.push("a", known[3], SMALL, "goodbye", terminating=True)
    for second in range(12, 30):
        for number, each in enumerate(known[:2]):
            if session.push("a", each, SMALL, f"second {second}, client {number}") == 117:
                known[number] = session.get("a", each.client_instance_id)
        session.advance(1000)
    session.do("reset", of="a")
    session.connect("b")
    session.get("b", known[0].client_instance_id, "finds its factor again")


@scenario(EVERY_SECOND + '[quotas."clients/<default>"]\ntelemetry_byte_rate = 150\n')
def byte_rate_quota(session: Session) -> None:
    """Large payloads cross the limit of bytes: who does not keep to its interval is refused."""
    subscription = begin(session)
    for number in range(10):
        code = session.push("a", subscription, metrics_data(4), f"push {number}")
        if code == 117:
            subscription = session.get("a", subscription.client_instance_id)
            session.push("a", subscription, SMALL, "right after its Get")
        session.advance(1000)
    session.connect("b")
    session.push("b", session.get("b"), metrics_data(4), "another client of the same quota, right after its Get")
    session.do("metrics")


@scenario(
    '"telemetry.max.byte.rate.per.ip" = 100\n"telemetry.max.new.instance.rate.per.ip" = 1\n'
    '"push.log.retention.bytes" = 1048576\n' + EVERY_SECOND
)
def sender_bounds(session: Session) -> None:
    """An address that pushes too many bytes, or under too many new ids; another address is served."""
    session.connect("a")
    subscription = session.get("a")
    for number in range(8):
        session.push("a", subscription, metrics_data(5), f"push {number}")
        session.advance(1000)
    session.connect("b", at="10.0.0.2")
    session.push("b", session.get("b"), metrics_data(5), "another address")
    session.send("a", b"".join(session.get_frame(uuid.UUID(int=n << 66 | 5)) for n in range(1, 170)), "169 new ids")
    session.connect("c", at="10.0.0.2")
    session.get("c")
    session.advance(3000)
    session.send("a", b"".join(session.get_frame(uuid.UUID(int=n << 66 | 5)) for n in range(500, 505)), "5 new ids")


@scenario()
def edited_subscription(session: Session) -> None:
    """Subscriptions edited between two pushes: the push is refused, the Get due at once, and so is the next push."""
    subscription = begin(session)
    session.push("a", subscription, SMALL)
    session.do("reconfigure", config=EVERY_SECOND.replace('"*"', '"org.apache.kafka.producer."').splitlines())
    session.push("a", subscription, SMALL, "under the old one")
    subscription = session.get("a", subscription.client_instance_id)
    session.push("a", subscription, SMALL)
    session.do("reconfigure", config=EVERY_SECOND.replace("1000", "5000").splitlines())
    session.advance(1000)
    session.push("a", subscription, SMALL, "under the old one")
    session.push("a", subscription, SMALL, "again")
    subscription = session.get("a", subscription.client_instance_id)
    session.push("a", subscription, SMALL)
    session.advance(1000)
    session.push("a", subscription, SMALL, "too early now")
    config = EVERY_SECOND + '[client-metrics.nobody]\nmetrics = "x"\nmatch = "client_id=someone"\n'
    session.do("reconfigure", config=config.replace("1000", "5000").splitlines())
    session.advance(4000)
    session.push("a", subscription, SMALL, "an edit that is not for this client")
    session.do("reconfigure", config=["[client-metrics.nobody]", 'metrics = "x"', 'match = "client_id=someone"'])
    session.advance(5000)
    session.push("a", subscription, SMALL, "asked for nothing now")
    session.get("a", subscription.client_instance_id)
    session.do("reconfigure", config=["[client-metrics.all]", 'metrics = "*"', '"interval.ms" = 1'])


@scenario(
    '[client-metrics.java]\nmetrics = "org.apache.kafka.consumer.,org.apache.kafka.producer."\n"interval.ms" = 2000\n'
    'match = "client_software_name=apache-kafka-java"\n'
    '[client-metrics.billing]\nmetrics = "org.apache.kafka.admin."\n"interval.ms" = 500\n'
    'match = "client_id=billing-.*"\n'
    '[client-metrics.there]\nmetrics = "*"\nmatch = "client_source_address=10\\\\.0\\\\.0\\\\.9"\n'
)
def matched_subscriptions(session: Session) -> None:
    """Which subscriptions meet which client; none for one that meets none."""
    for name, software, client_id, at in (
        ("java", ("apache-kafka-java", "4.1.1"), "orders", "10.0.0.1"),
        ("both", ("apache-kafka-java", "4.1.1"), "billing-7", "10.0.0.1"),
        ("billing", ("kgo", "v1.22.2"), "billing-7", "10.0.0.2"),
        ("there", ("kgo", "v1.22.2"), "orders", "10.0.0.9"),
        ("none", ("kgo", "v1.22.2"), "orders", "10.0.0.1"),
    ):
        session.connect(name, at=at)
        session.send(name, session.versions_frame(*software, client_id=client_id))
        session.push(name, session.get(name, client_id=client_id), SMALL, name, client_id=client_id)
    session.do("clients")


GUARD = """
[client-guard.leaky]
software = "leaky-.*"
versions = "<2"
action = "withhold"
reason = "it leaks"
[client-guard.one-codec]
software = "narrow"
action = "rewrite"
compression = "gzip"
reason = "it knows one"
"""


@scenario(EVERY_SECOND + GUARD)
def client_guard(session: Session) -> None:
    """What each known client is asked for under `*`, and those of an operator's own rules; rules edited at run time."""
    for number, software in enumerate(
        (
            ("apache-kafka-java", "3.7.0"), ("apache-kafka-java", "3.9.1"), ("apache-kafka-java", "4.0.0"),
            ("apache-kafka-java", "4.1.1"), ("librdkafka", "2.5.0"), ("confluent-kafka-python", "2.5.3-rdkafka-2.5.3"),
            ("confluent-kafka-go", "2.10.1-rdkafka-2.10.1"), ("kgo", "v1.22.2"), ("leaky-app", "1.9"),
            ("leaky-app", "2.0"), ("narrow", "x"),
        )
    ):  # fmt: skip
        session.connect(f"c{number}")
        session.send(f"c{number}", session.versions_frame(*software), " ".join(software))
        session.push(f"c{number}", session.get(f"c{number}"), SMALL, " ".join(software))
    known = session.get("c8", note="withheld, too early")
    session.do("reconfigure", config=EVERY_SECOND.splitlines())
    session.advance(1000)
    session.get("c8", known.client_instance_id, "the rule is gone")


@scenario('[client-metrics.seldom]\nmetrics = "*"\n"interval.ms" = 3600000\n')
def interval_bound_of_librdkafka(session: Session) -> None:
    """An interval that librdkafka cannot compute with is not given to it."""
    known = []
    for number, software in enumerate((("librdkafka", "2.16.0"), ("apache-kafka-java", "4.1.1"))):
        name = f"c{number}"
        session.connect(name)
        session.send(name, session.versions_frame(*software))
        known.append(session.get(name))
        session.push(name, known[-1], SMALL)
    session.advance(1_789_568)
    session.push("c0", known[0], SMALL, "too early")
    session.advance(1)
    session.push("c0", known[0], SMALL, "due")
    session.push("c1", known[1], SMALL, "too early")


@scenario(REFUSING + '"telemetry.client.instance.metrics.max" = 2\n' + EVERY_SECOND)
def metrics_of_instances(session: Session) -> None:
    """Instances with metrics of their own, and one too many; they leave with their instances."""
    session.connect("a", "b")
    known = ids(session, "a", 3)
    for each in known:
        session.push("a", each, SMALL)
        session.push("a", each, SMALL, "too early")
        session.push("a", each, SMALL, subscription_id=1)
    session.do("metrics")
    session.advance(1000)
    session.push("a", known[0], b"\x0f")
    session.push("a", known[1], SMALL, terminating=True)
    session.do("metrics")
    session.do("reset", of="a")
    session.do("metrics")
    session.get("b", known[2].client_instance_id)
    session.do("metrics")


COUNT = "telemetry.client_metrics.plugin-export-count"
"""Pushes that the log took and pushes that a reporter took."""


def _reported(session: Session) -> None:
    subscription = begin(session)
    session.push("a", subscription, SMALL)
    session.do("report", path=COUNT, value=2.0)
    session.push("a", subscription, SMALL, "too early: not reported")
    session.advance(1000)
    session.push("a", subscription, None, "a heartbeat")
    session.do("report", path=COUNT, value=4.0)
    session.send("a", session.versions_frame("kgo", "v1.22.2"))
    session.advance(1000)
    session.push("a", subscription, metrics_data(3), client_id="other")
    session.advance(300)
    session.push("a", subscription, metrics_data(2), client_id="other", terminating=True)
    session.do("report", path=COUNT, value=7.0)
    session.do("report", path=COUNT, value=8.0)
    session.push("a", subscription, SMALL, "over", client_id="other")


@scenario('"metric.reporters" = "golden.reporters:Receiver"\n' + EVERY_SECOND)
def reporter(session: Session) -> None:
    """A reporter with a receiver (KIP-714) is told of every accepted push."""
    _reported(session)


@scenario('"metric.reporters" = "golden.reporters:Exporter"\n' + EVERY_SECOND)
def reporter_with_the_interval(session: Session) -> None:
    """A reporter with an exporter (KIP-1217)."""
    _reported(session)


@scenario('"metric.reporters" = "golden.reporters:Raising"\n' + EVERY_SECOND)
def reporter_that_raises(session: Session) -> None:
    """A reporter that raises costs no client anything, and is counted."""
    subscription = begin(session)
    session.push("a", subscription, SMALL)
    session.do("report", path="telemetry.plugin_errors.Raising", value=1)
    session.advance(1000)
    session.push("a", subscription, SMALL)
    session.do("report", path="telemetry.plugin_errors.Raising", value=2)


@scenario('"metric.reporters" = "golden.reporters:Hanging"\n"plugin.export.timeout.ms" = 3000\n' + EVERY_SECOND)
def reporter_that_hangs(session: Session) -> None:
    """What a reporter returns and never ends is cancelled after plugin.export.timeout.ms; so is a call that blocks."""
    subscription = begin(session)
    session.push("a", subscription, SMALL)
    session.do("report")
    session.advance(2999)
    session.advance(1)
    session.push("a", subscription, SMALL, "its thread does not come back")
    session.advance(3000)


@scenario("workers = 2\n" + EVERY_SECOND + '[quotas."clients/<default>"]\nrequest_percentage = 3\n')
def worker_of_two(session: Session) -> None:
    """The first of two workers: its share of the quota is half of it."""
    session.do("tick", ms=60)
    subscription = begin(session)
    for _ in range(8):
        if session.push("a", subscription, SMALL) == 117:
            subscription = session.get("a", subscription.client_instance_id)
        session.advance(1000)
    session.do("disk")

"""Random scenarios on our quota classes, as scripts for `support.quotas.quota_oracle`."""

import random
from collections.abc import Callable

from support.quotas.quota_oracle import START_MS, Script, limited_wait

from fleetgauge.base.clock import MockTime
from fleetgauge.quotas import (
    Admit,
    Avg,
    Connection,
    ConnectionQuotaConfig,
    ConnectionQuotas,
    CumulativeSum,
    Decision,
    Max,
    Min,
    Rate,
    Refuse,
    SimpleRate,
    TokenBucket,
    TooManyConnectionsError,
    Wait,
    WindowedCount,
    WindowedSum,
)
from fleetgauge.quotas.connections.connection_rates import METRICS_GROUP
from fleetgauge.quotas.metrics.kafka_metric import KafkaMetric
from fleetgauge.quotas.metrics.metric_config import UNBOUNDED, MetricConfig
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.quotas.metrics.sensor import QuotaViolationError
from fleetgauge.quotas.metrics.stats.stat import MeasurableStat, TimeUnit
from fleetgauge.quotas.metrics.throttle_time import throttle_time, token_bucket_throttle_time
from fleetgauge.quotas.replication import ReplicationQuotaManager, ReplicationQuotaManagerConfig

STEPS = 120
UNITS = ("NANOSECONDS", "MICROSECONDS", "MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS")
UPPER_STATS = ("rate", "rate", "rate", "count-rate", "simple", "bucket", "bucket", "sum", "avg", "max")
LOWER_STATS = ("sum", "count", "total", "avg", "max", "min")
"""A throttle time has a meaning for an upper bound alone."""


def sensor_script(seed: int) -> Script:
    """One sensor with any statistics under any quota, of half of them also its parent: records, checks, measures,
    changed limits, time.
    """
    return _SensorScenario(random.Random(f"sensor {seed}"), Script(f"sensor {seed}")).run()


PLAIN_STATS: dict[str, Callable[[], MeasurableStat]] = {
    "simple": SimpleRate,
    "sum": WindowedSum,
    "count": WindowedCount,
    "total": CumulativeSum,
    "avg": Avg,
    "max": Max,
    "min": Min,
}


class _SensorScenario:
    def __init__(self, dice: random.Random, script: Script) -> None:
        self.dice, self.script = dice, script
        self.now_ms = START_MS
        self.is_upper = dice.random() < 0.85
        self.metrics = Metrics(time=MockTime(monotonic_ms=START_MS))
        self.is_whole = dice.random() < 0.5
        config, words = self.config()
        parents = [self.metrics.sensor("p", config)] if dice.random() < 0.5 else []
        self.sensor = self.metrics.sensor("s", config, parents=parents)
        kinds = [dice.choice(UPPER_STATS if self.is_upper else LOWER_STATS) for _ in range(dice.randint(1, 4))]
        stats = [self.stat(kind) for kind in kinds]
        self.measured: list[KafkaMetric] = []
        for sensor in (self.sensor, *parents):
            for _, make in stats:
                sensor.add(self.metrics.metric_name(f"m{len(self.measured)}", "g"), make())
                self.measured.append(sensor.metrics[-1])
        words += f" {','.join(text for text, _ in stats)} {'parent' if parents else 'alone'}"
        script.say(f"new sensor {words}", "new")

    def config(self) -> tuple[MetricConfig, str]:
        dice = self.dice
        samples = dice.choice((1, 2, 3, 11))
        window_ms = dice.choice((125, 250, 1_000, 2_000, 30_000)) if self.is_whole else dice.randint(1, 3_000)
        event_window = dice.choice((UNBOUNDED, UNBOUNDED, UNBOUNDED, 1, 3))
        bound = None if dice.random() < 0.1 else 0.0 if dice.random() < 0.05 else self.amount(50)
        quota = None if bound is None else Quota(bound, upper=self.is_upper)
        words = f"{samples} {window_ms} {event_window} {'none' if bound is None else bound}"
        config = MetricConfig(samples=samples, time_window_ms=window_ms, event_window=event_window, quota=quota)
        return config, f"{words} {'upper' if self.is_upper else 'lower'}"

    def amount(self, up_to: int) -> float:
        """Whole numbers, which hit a bound exactly, or others, which do not."""
        return float(self.dice.randint(1, up_to)) if self.is_whole else self.dice.uniform(0.01, up_to)

    def stat(self, kind: str) -> tuple[str, Callable[[], MeasurableStat]]:
        unit = "SECONDS" if self.is_whole else self.dice.choice(UNITS)
        if kind in PLAIN_STATS:
            return kind, PLAIN_STATS[kind]
        if kind == "bucket":
            return "bucket:SECONDS", TokenBucket  # Kafka's throttle time takes every bucket for one a second
        counted = WindowedCount if kind == "count-rate" else WindowedSum
        return f"{kind}:{unit}", lambda: Rate(TimeUnit[unit], counted())

    def run(self) -> Script:
        for _ in range(STEPS):
            self.pass_time()
            action = self.dice.choices((self.record, self.check, self.measure, self.limit), (60, 10, 25, 5))[0]
            action()
        return self.script

    def pass_time(self) -> None:
        """Sometimes a little backwards: threads read the clock before they wait for the lock."""
        dice = self.dice
        step = dice.choices((0, dice.randint(0, 400), dice.randint(0, 5_000), -dice.randint(0, 30)), (30, 50, 15, 5))[0]
        self.now_ms += dice.randint(10_000, 400_000) if dice.random() < 0.01 else step

    def record(self) -> None:
        value = self.amount(200) * (-1 if self.dice.random() < 0.1 else 1)
        checks = self.dice.random() < 0.8
        answer = self.outcome(lambda: self.sensor.record(value, self.now_ms, checks))
        self.script.say(f"record {self.now_ms} {value!r} {'check' if checks else 'no'}", answer)

    def check(self) -> None:
        self.script.say(f"check {self.now_ms}", self.outcome(lambda: self.sensor.check_quotas(self.now_ms)))

    def measure(self) -> None:
        values = (metric.metric_value(self.now_ms) for metric in self.measured)
        self.script.say(f"measure {self.now_ms}", " ".join(map(str, values)))

    def limit(self) -> None:
        config, words = self.config()
        index = self.dice.randrange(len(self.measured))
        self.measured[index].config = config
        self.script.say(f"limit {self.now_ms} {index} {words}")

    def outcome(self, action: object) -> str:
        try:
            action()  # type: ignore[operator]
        except QuotaViolationError as error:
            provider, wait = error.metric.provider, "-"
            if isinstance(provider, TokenBucket):
                wait = limited_wait(token_bucket_throttle_time(error))
            elif isinstance(provider, Rate):
                wait = limited_wait(throttle_time(error, self.now_ms))
            return f"violation {error.metric.metric_name.name} {error.value} {error.bound} {wait}"
        return "ok"


def replication_script(seed: int) -> Script:
    """The throttle of replication: marked partitions, bytes, limits, time."""
    dice, script = random.Random(f"replication {seed}"), Script(f"replication {seed}")
    clock = MockTime(monotonic_ms=START_MS)
    metrics = Metrics(time=clock)
    samples, seconds = dice.choice(((11, 1), (3, 1), (2, 5)))
    config = ReplicationQuotaManagerConfig(num_quota_samples=samples, quota_window_size_seconds=seconds)
    manager = ReplicationQuotaManager(config, metrics, "LeaderReplication", clock)
    script.say(f"new replication {samples} {seconds}", "new")
    for _ in range(STEPS):
        clock.sleep(dice.choice((0, 1, 90, 500, 1_000, 4_000)))
        now_ms, topic = clock.hi_res_clock_ms(), dice.choice("ab")
        match dice.choices(("limit", "record", "mark", "unmark", "look"), (5, 40, 5, 3, 40))[0]:
            case "limit":
                bound = dice.choice((None, float(dice.randint(0, 5_000))))
                manager.update_quota(None if bound is None else Quota.upper_bound(bound))
                script.say(f"limit {now_ms} {'none' if bound is None else bound}")
            case "record":
                size = dice.randint(0, 3_000)
                manager.record(size)
                script.say(f"record {now_ms} {size}")
            case "mark" if dice.random() < 0.3:
                manager.mark_throttled(topic)
                script.say(f"mark {now_ms} {topic} *")
            case "mark":
                partitions = dice.sample(range(5), dice.randint(1, 4))
                manager.mark_throttled(topic, partitions)
                script.say(f"mark {now_ms} {topic} {','.join(map(str, partitions))}")
            case "unmark":
                manager.remove_throttle(topic)
                script.say(f"unmark {now_ms} {topic}")
            case _:
                partition = dice.randrange(5)
                throttled, exceeded = manager.is_throttled(topic, partition), manager.is_quota_exceeded()
                rate = value_of(metrics, "byte-rate", "LeaderReplication")
                answer = f"{truth(throttled)} {truth(exceeded)} {manager.upper_bound} {rate}"
                script.say(f"look {now_ms} {topic} {partition}", answer)
    return script


def connection_script(seed: int) -> Script:
    """Connections that come, wait, are refused and end, on two listeners, under limits that change."""
    return _ConnectionScenario(random.Random(f"connections {seed}"), Script(f"connections {seed}")).run()


LISTENER_METRICS = ("connection-accept-rate", "connection-accept-throttle-time", "ip-connection-accept-throttle-time")


class _ConnectionScenario:
    LISTENERS = ("EXTERNAL", "INTERNAL")

    def __init__(self, dice: random.Random, script: Script) -> None:
        self.dice, self.script = dice, script
        self.time = MockTime(monotonic_ms=START_MS)
        self.metrics = Metrics(time=self.time)
        samples, seconds = dice.choice(((11, 1), (3, 1), (2, 2)))
        self.max, self.ip_max, rate = dice.randint(3, 15), dice.randint(1, 6), self.rate()
        self.listener_max = {name: dice.randint(2, 12) for name in self.LISTENERS}
        rates = {name: self.rate() for name in self.LISTENERS}
        config = ConnectionQuotaConfig(
            max_connections=self.max,
            max_connections_per_ip=self.ip_max,
            max_connection_creation_rate=rate,
            inter_broker_listener_name="INTERNAL",
            num_quota_samples=samples,
            quota_window_size_seconds=seconds,
        )
        self.quotas = ConnectionQuotas(config, self.metrics)
        words = f"{samples} {seconds} {self.max} {self.ip_max} {rate}"
        for name in self.LISTENERS:
            self.quotas.add_listener(
                name, max_connections=self.listener_max[name], max_connection_creation_rate=rates[name]
            )
            words += f" {self.listener_max[name]} {rates[name]}"
        script.say(f"new connections {words}", "new")
        self.open: list[tuple[Connection, str, str]] = []

    def rate(self) -> int:
        return self.dice.choice((1, 3, 10, 100, 2**31 - 1))

    @property
    def now_ms(self) -> int:
        return self.time.hi_res_clock_ms()

    def run(self) -> Script:
        for _ in range(STEPS):
            self.time.sleep(self.dice.choice((0, 0, 5, 100, 700, 3_000)))
            actions = (self.connect, self.disconnect, self.look, self.change_limits)
            self.dice.choices(actions, (50, 25, 20, 6))[0]()
        return self.script

    def address(self) -> str:
        return f"10.0.0.{self.dice.randint(1, 5)}"

    def connect(self) -> None:
        """Waits for the rates, and then, where there is no room, until another connection ends."""
        listener, address = self.dice.choice(self.LISTENERS), self.address()
        if listener == "EXTERNAL" and self.quotas.total_count > self.max:
            self.disconnect()  # one that ends makes no room yet
            return
        arrived_ms = self.now_ms
        connection = self.quotas.arrive(listener, arrived_ms, address)
        decision = self.quotas.decide(connection, arrived_ms)
        command, seen = f"connect {arrived_ms} {listener} {address}", "waits" if isinstance(decision, Wait) else "goes"
        wait_ms = decision.ms if isinstance(decision, Wait) and decision.ms is not None else 0
        if wait_ms:
            assert isinstance(self.quotas.decide(connection, arrived_ms + wait_ms - 1), Wait)
            self.time.sleep(wait_ms)
            decision = self.quotas.decide(connection, self.now_ms)
            seen += " waits waits" if isinstance(decision, Wait) else " waits goes"
        command += f" {wait_ms}"
        if isinstance(decision, Wait):
            ended, ended_listener, ended_address = self.end(listener)
            self.quotas.dec(ended)
            command += f" {ended_listener} {ended_address}"
            decision = self.quotas.decide(connection, self.now_ms)
        self.script.say(command, f"{seen} {outcome_of(decision)}")
        if isinstance(decision, Admit):
            self.open.append((connection, listener, address))

    def end(self, listener: str) -> tuple[Connection, str, str]:
        """Takes out a connection whose end makes room on `listener`."""
        is_full = self.quotas.listener_count(listener) >= self.listener_max[listener]
        fitting = [index for index, each in enumerate(self.open) if each[1] == listener or not is_full]
        return self.open.pop(self.dice.choice(fitting))

    def disconnect(self) -> None:
        if self.open:
            connection, listener, address = self.open.pop(self.dice.randrange(len(self.open)))
            self.quotas.dec(connection)
            self.script.say(f"dec {self.now_ms} {listener} {address}")

    def look(self) -> None:
        address = self.address()
        found = [str(self.quotas.get(address)), truth(self.quotas.max_connections_exceeded("EXTERNAL"))]
        found.append(value_of(self.metrics, "broker-connection-accept-rate", METRICS_GROUP))
        for listener in self.LISTENERS:
            found += [value_of(self.metrics, name, METRICS_GROUP, listener=listener) for name in LISTENER_METRICS]
        found.append(value_of(self.metrics, "connection-accept-rate", METRICS_GROUP, ip=address))
        self.script.say(f"look {self.now_ms} {address}", " ".join(found))

    def change_limits(self) -> None:
        match self.dice.choice(("max", "rate", "ip-max", "ip-rate", "ip-rate")):
            case "max":
                self.max = self.dice.randint(3, 15)
                self.quotas.update_broker_max_connections(self.max)
                self.script.say(f"max {self.now_ms} {self.max}")
            case "rate":
                rate = self.rate()
                self.quotas.update_broker_max_connection_rate(rate)
                self.script.say(f"rate {self.now_ms} {rate}")
            case "ip-max":
                self.quotas.update_max_connections_per_ip(limit := self.dice.randint(1, 6))
                self.script.say(f"ip-max {self.now_ms} {limit}")
            case _:
                address = self.dice.choice((None, self.address()))
                limit_or_none = self.dice.choice((None, 0, 1, 2, 50))
                self.quotas.update_ip_connection_rate_quota(address, limit_or_none)
                words = f"{address or '*'} {'none' if limit_or_none is None else limit_or_none}"
                self.script.say(f"ip-rate {self.now_ms} {words}")


def outcome_of(decision: Decision) -> str:
    """What became of a connection, in the oracle's words."""
    if isinstance(decision, Admit):
        return "admitted"
    if isinstance(decision, Wait):
        return "for ever"
    assert isinstance(decision, Refuse)
    if isinstance(decision.error, TooManyConnectionsError):
        return f"too-many {decision.error.count}"
    return f"throttled {decision.error.throttle_time_ms}"


def value_of(metrics: Metrics, name: str, group: str, **tags: str) -> str:
    """A metric's value now, `none` if there is none."""
    metric = metrics.metric(metrics.metric_name(name, group, tags=tags))
    return "none" if metric is None else str(metric.metric_value())


def truth(value: bool) -> str:
    """As Java writes it."""
    return "true" if value else "false"

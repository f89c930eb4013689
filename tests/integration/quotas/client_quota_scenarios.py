"""Random scenarios on our quota managers of clients, as scripts for `support.quotas.quota_oracle`."""

import random

from support.quotas.quota_oracle import START_MS, Script
from support.quotas.quota_scenarios import truth

from fleetgauge.base.clock import MockTime
from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.quotas.client_quota import ClientQuotaManager, ClientQuotaManagerConfig
from fleetgauge.quotas.client_request_quota import ClientRequestQuotaManager
from fleetgauge.quotas.controller_mutation import ControllerMutationQuotaManager, MutationQuotaExceededError
from fleetgauge.quotas.entity import (
    DEFAULT_CLIENT_ID_ENTITY,
    DEFAULT_USER_ENTITY,
    ClientIdEntity,
    ConfigEntity,
    UserEntity,
)
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.quotas.quota_type import QuotaType
from fleetgauge.quotas.session import Session

STEPS = 120
USERS = ("alice", "b%b:b", "Zoë", "CN=x, O=y")
CLIENTS = ("app", "a/b", "x:y")
OWN_METRICS = frozenset({"quota-utilization", "rate"})
"""What Kafka's managers do not have; `rate` is what KIP-599 calls that which is `mutation-rate` in Kafka."""


def client_script(seed: int) -> Script:
    """Usage of some users and client ids under limits of every level, which come, change and go."""
    return _ClientScenario(random.Random(f"clients {seed}"), Script(f"clients {seed}")).run()


class _ClientScenario:
    def __init__(self, dice: random.Random, script: Script) -> None:
        self.dice, self.script = dice, script
        self.time = MockTime(monotonic_ms=START_MS)
        self.metrics = Metrics(time=self.time)
        samples, seconds = dice.choice(((11, 1), (3, 1), (2, 5)))
        config = ClientQuotaManagerConfig(num_quota_samples=samples, quota_window_size_seconds=seconds)
        self.kind = dice.choice((QuotaType.PRODUCE, QuotaType.FETCH, QuotaType.REQUEST, QuotaType.CONTROLLER_MUTATION))
        self.manager: ClientQuotaManager
        if self.kind is QuotaType.REQUEST:
            self.manager = ClientRequestQuotaManager(config, self.metrics, self.time)
        elif self.kind is QuotaType.CONTROLLER_MUTATION:
            self.manager = ControllerMutationQuotaManager(config, self.metrics, self.time)
        else:
            self.manager = ClientQuotaManager(config, self.metrics, self.kind, self.time)
        script.say(f"new {self.kind.name} {samples} {seconds}", "new")
        # One level or several: the short ways for one are to say the same.
        levels = [("user", "-"), ("-", "client"), ("user", "client")]
        self.levels = dice.sample(levels, dice.choice((1, 1, 2, 3)))

    @property
    def now_ms(self) -> int:
        return self.time.hi_res_clock_ms()

    def run(self) -> Script:
        for _ in range(STEPS):
            self.time.sleep(self.dice.choice((0, 0, 10, 120, 900, 2_500)))
            actions = (self.limit, self.record, self.look, self.measure, self.mutate)
            self.dice.choices(actions, (12, 50, 10, 6, 20 * (self.kind is QuotaType.CONTROLLER_MUTATION)))[0]()
        return self.script

    def limit(self) -> None:
        has_user, has_client = self.dice.choice(self.levels)
        user = "-" if has_user == "-" else self.dice.choice((*USERS, "*"))
        client = "-" if has_client == "-" else self.dice.choice((*CLIENTS, "*"))
        bound = None if self.dice.random() < 0.25 else float(self.dice.choice((1, 5, 20, 100, 1_000)))
        self.manager.update_quota(
            user_entity(user), client_entity(client), None if bound is None else Quota.upper_bound(bound)
        )
        self.script.say(f"limit {self.now_ms} {word(user)} {client} {'none' if bound is None else bound}")

    def record(self) -> None:
        session, words, client = self.client()
        value = float(self.dice.randint(1, 400))
        wait_ms = self.manager.maybe_record_and_get_throttle_time_ms(session, client, value, self.now_ms)
        self.script.say(f"record {self.now_ms} {words} {value}", wait_ms)
        if self.dice.random() < 0.2:
            self.manager.unrecord_quota_sensor(session, client, value, self.now_ms)
            self.script.say(f"unrecord {self.now_ms} {words} {value}")

    def look(self) -> None:
        session, words, client = self.client()
        bound = self.manager.quota(session.principal, client).bound
        most = self.manager.max_value_in_quota_window(session, client)
        self.script.say(f"look {self.now_ms} {words}", f"{self.manager.quota_types_enabled} {bound} {most}")

    def measure(self) -> None:
        found = {
            f"{name.name}|{name.tags.get('user', '-')}|{name.tags.get('client-id', '-')}": str(metric.metric_value())
            for name, metric in self.metrics.metrics().items()
            if name.name not in OWN_METRICS and {"user", "client-id"} & name.tags.keys()
        }
        answer = " ".join(f"{name} {found[name]}" for name in sorted(found))
        self.script.say(f"metrics {self.now_ms} - -", f"metrics {answer}")

    def mutate(self) -> None:
        manager = self.manager
        assert isinstance(manager, ControllerMutationQuotaManager)
        session, words, client = self.client()
        is_strict, permits = self.dice.random() < 0.6, float(self.dice.randint(1, 60))
        make = manager.new_strict_quota_for if is_strict else manager.new_permissive_quota_for
        quota, outcome = make(session, client), "recorded"
        try:
            quota.record(permits, self.now_ms)
        except MutationQuotaExceededError:
            outcome = "refused"
        answer = f"{outcome} {truth(quota.is_exceeded)} {quota.throttle_time(self.now_ms)}"
        self.script.say(f"{'strict' if is_strict else 'permissive'} {self.now_ms} {words} {permits}", answer)

    def client(self) -> tuple[Session, str, str]:
        user, client = self.dice.choice(USERS), self.dice.choice(CLIENTS)
        return Session(KafkaPrincipal("User", user)), f"{word(user)} {client}", client


def word(user: str) -> str:
    """A user's name without blanks, as the oracle reads it."""
    return user.replace(" ", "\N{OPEN BOX}")


def user_entity(name: str) -> ConfigEntity | None:
    """`-` for none, `*` for the default."""
    return None if name == "-" else DEFAULT_USER_ENTITY if name == "*" else UserEntity(name)


def client_entity(name: str) -> ConfigEntity | None:
    """`-` for none, `*` for the default."""
    return None if name == "-" else DEFAULT_CLIENT_ID_ENTITY if name == "*" else ClientIdEntity(name)

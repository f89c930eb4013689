"""Both streams of a gateway's connection under quotas, on clocks that stand still."""

from support.gateway.gateway_traffic import Client, Relay

from fleetgauge.base.clock import MockTime
from fleetgauge.gateway.traffic.rules import TrafficRules
from fleetgauge.quotas.client_quota import ClientQuotaManager
from fleetgauge.quotas.config import QuotaConfig
from fleetgauge.quotas.entity import ClientIdEntity
from fleetgauge.quotas.identities import Identities
from fleetgauge.quotas.managers import QuotaManagers
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota

CLIENT = "client"


class Counted(Client):
    """A connection that counts its mutes, and how long the loop spent with it."""

    def __init__(self) -> None:
        super().__init__()
        self.mutes = 0
        self.loop_ns = 0

    def mute(self) -> None:
        self.mutes += 1

    def unmute(self) -> None:
        self.mutes -= 1
        assert self.mutes >= 0

    def take_loop_ns(self, *, to_now: bool = False) -> int:
        taken, self.loop_ns = self.loop_ns, 0
        return taken


class JudgedRelay(Relay):
    """Both streams of one connection under quotas, on a clock of their own."""

    client: Counted

    def __init__(self) -> None:
        self.time = MockTime()
        self.metrics = Metrics(time=self.time)
        self.managers = QuotaManagers.instantiate(QuotaConfig(), self.metrics, self.time)
        self.rules = TrafficRules(self.managers, Identities())
        super().__init__(rules=self.rules)
        self.client = Counted()
        self.requests._connection = self.responses._connection = self.client

    def limit(self, manager: ClientQuotaManager, bound: float) -> None:
        manager.update_quota(None, ClientIdEntity(CLIENT), Quota.upper_bound(bound))

    def from_client(self, data: bytes) -> bytes:
        self.requests.receive(data, self.time.nanoseconds())
        return taken(self.requests.output)

    def from_broker(self, data: bytes) -> bytes:
        self.responses.receive(data, self.time.nanoseconds())
        return taken(self.responses.output)

    def reap(self) -> None:
        for manager in self.managers.client_quota_managers:
            manager.reaper.reap(self.time.hi_res_clock_ms())


def taken(output: list[bytes]) -> bytes:
    joined = b"".join(output)
    output.clear()
    return joined

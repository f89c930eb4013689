"""The quotas of a node: limits of the configuration, changed while it runs, and what the status says of their use."""

import asyncio
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from fleetgauge.base.clock import MockTime
from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.cli.node.status_text import _quotas
from fleetgauge.cluster.quotas.limits import by_entity, read_entity, read_limits
from fleetgauge.node.config import ConfigError, load_config
from fleetgauge.node.listener.node_quotas import NodeQuotas, share
from fleetgauge.node.state.client_quotas import ClientQuotas
from fleetgauge.quotas import ConnectionQuotaConfig, ConnectionQuotas
from fleetgauge.quotas.controller_mutation import MutationQuotaExceededError
from fleetgauge.quotas.default_quota_callback import DefaultQuotaCallback
from fleetgauge.quotas.entity import KafkaQuotaEntity
from fleetgauge.quotas.metrics.metric_config import UNBOUNDED
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.quota_type import ClientQuotaType
from fleetgauge.quotas.usage import usages
from fleetgauge.wire.api_table import ApiTable

ALICE = KafkaPrincipal("User", "alice")


class RefusesLarge(DefaultQuotaCallback):
    """A callback of somebody's own, which takes no limit above 100 and knows its configuration."""

    configured: dict[str, object]

    def configure(self, configs: Any) -> None:
        RefusesLarge.configured = dict(configs)

    def update_quota(self, quota_type: ClientQuotaType, quota_entity: KafkaQuotaEntity, new_value: float) -> None:
        if new_value > 100:
            raise RuntimeError("too much")
        super().update_quota(quota_type, quota_entity, new_value)


class Bench:
    def __init__(self, *overrides: str, **callback_configs: object) -> None:
        self.time = MockTime()
        self.metrics = Metrics(time=self.time)
        self.connections = ConnectionQuotas(ConnectionQuotaConfig(), self.metrics)
        self.connections.add_listener("PLAINTEXT")
        config = load_config(overrides=overrides)
        self.quotas = NodeQuotas(config, callback_configs, self.metrics, self.connections, ApiTable(), self.time)
        self.limits_of_all = ClientQuotas(by_entity(read_limits(config.quotas)), self.quotas.install)

    def limit(self, *overrides: str) -> None:
        self.limits_of_all.configure(by_entity(read_limits(load_config(overrides=overrides).quotas)))

    def limits(self) -> dict[str, float]:
        """The limits in force of whoever alice is, by kind of quota."""
        found, _ = usages(self.metrics, self.time.hi_res_clock_ms(), 100)
        return {f"{each.kind} {each.entity}": each.limit for each in found}

    def use(self) -> None:
        """A push of 100 bytes of alice, whose handling takes a millisecond."""
        now_ms = self.time.hi_res_clock_ms()
        context: Any = SimpleNamespace(principal=ALICE, client_id="app")
        session, client_id = self.quotas.identities.of(ALICE, "app", now_ms)
        self.quotas.managers.request.maybe_record_and_get_throttle_time_ms(session, client_id, 0.1, now_ms)
        paced: Any = SimpleNamespace(pace=None)
        self.quotas.pace.changes_interval(paced, context, 60_000, now_ms)
        self.quotas.pace.record(paced, context, 100, now_ms)


@pytest.fixture
def bench() -> Callable[..., Bench]:
    """Makes one on a loop that runs nothing."""

    def make(*overrides: str, **callback_configs: object) -> Bench:
        async def on_a_loop() -> Bench:
            return Bench(*overrides, **callback_configs)

        return asyncio.run(on_a_loop())

    return make


def test_changed_limits_hold_at_once_and_what_was_used_stays(bench: Callable[..., Bench]) -> None:
    made = bench("quotas.users/alice.request_percentage=5", "quotas.users/alice.telemetry_byte_rate=50")
    made.use()
    assert made.limits() == {"Request user=alice": 5, "TelemetryByte user=alice": 50}
    before = made.quotas.status()["usage"]
    assert before["TelemetryByte"]["user=alice"]["used"] == pytest.approx(10), "100 bytes in ten seconds"
    assert before["TelemetryByte"]["user=alice"]["throttled_clients"] == 0
    made.limit("quotas.users/alice.request_percentage=2", "quotas.users/alice.telemetry_byte_rate=50")
    after = made.quotas.status()["usage"]
    assert after["Request"]["user=alice"] == {**before["Request"]["user=alice"], "limit": 2}
    assert after["TelemetryByte"] == before["TelemetryByte"]


def test_limits_that_are_gone_from_the_file_hold_no_more(bench: Callable[..., Bench]) -> None:
    made = bench("quotas.users/alice.request_percentage=5", "quotas.clients/<default>.telemetry_push_rate=1")
    made.use()
    assert (made.quotas.request.clock is None, made.quotas.pace.enabled) == (False, True)
    made.limit()
    assert made.limits() == {}
    assert (made.quotas.request.clock is None, made.quotas.pace.enabled) == (True, False)


def test_connection_creation_rates_of_addresses_reach_the_connection_quotas(bench: Callable[..., Bench]) -> None:
    made = bench("quotas.ips/10.0.0.1.connection_creation_rate=3", "quotas.ips/<default>.connection_creation_rate=7")
    rates = [made.connections.connection_rate_for_ip(address) for address in ("10.0.0.1", "10.0.0.2")]
    assert rates == [3, 7]
    made.limit("quotas.ips/<default>.connection_creation_rate=9")
    rates = [made.connections.connection_rate_for_ip(address) for address in ("10.0.0.1", "10.0.0.2")]
    assert rates == [9, 9]


def test_a_callback_is_configured_and_one_that_refuses_leaves_the_old_limits(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "somebodys", SimpleNamespace(Own=RefusesLarge))
    name = "client.quota.callback.class=somebodys.Own"
    made = bench(name, "quotas.users/alice.request_percentage=5", groups="a: alice")
    made.use()
    assert RefusesLarge.configured == {"groups": "a: alice"}
    with pytest.raises(ConfigError, match=r"somebodys\.Own refuses them: too much"):
        made.limit(name, "quotas.users/bob.request_percentage=9", "quotas.users/alice.request_percentage=500")
    assert made.limits()["Request user=alice"] == 5
    assert made.quotas.managers.request.quota("bob", "").bound == float(UNBOUNDED)
    made.limit(name, "quotas.users/alice.request_percentage=7")
    assert made.limits()["Request user=alice"] == 7


def test_a_client_id_is_known_by_name_while_an_entity_with_limits_has_it(bench: Callable[..., Bench]) -> None:
    by_user, by_client = (f"quotas.{each}.request_percentage=5" for each in ("users/alice/clients/app", "clients/app"))
    made = bench(by_user, by_client, "quotas.clients/<default>.request_percentage=1")
    assert list(made.quotas.identities._named) == ["app"]
    made.limit(by_client)
    assert list(made.quotas.identities._named) == ["app"]
    made.limit(by_client.replace("=5", "=6"))
    made.limit()
    assert list(made.quotas.identities._named) == []


def test_a_callback_that_is_not_there_is_a_clear_error(bench: Callable[..., Bench]) -> None:
    with pytest.raises(ConfigError, match=r"client\.quota\.callback\.class: .*no\.such\.Thing"):
        bench("client.quota.callback.class=no.such.Thing")


def test_the_status_shows_the_most_used_and_counts_the_others(bench: Callable[..., Bench]) -> None:
    made = bench("quotas.clients/<default>.request_percentage=1")
    now_ms = made.time.hi_res_clock_ms()
    for number in range(130):
        session, client_id = made.quotas.identities.of(ALICE, f"[app]-{number}", now_ms)
        made.quotas.managers.request.maybe_record_and_get_throttle_time_ms(session, client_id, number / 10, now_ms)
    status = made.quotas.status()
    shown = status["usage"]["Request"]
    assert (len(shown), status["usage_left_out"]) == (100, 30)
    assert set(shown) == {f"client-id=[app]-{number}" for number in range(30, 130)}
    console = Console(markup=False, width=120, record=True)
    for table in _quotas({"quotas": status}):
        console.print(table)
    text = console.export_text()
    assert "Request client-id=[app]-129  129% of 1" in text
    assert "and 30 more" in text
    assert _quotas({"quotas": {**status, "usage": {}}}) == []


def test_a_worker_enforces_its_share_of_the_limits_of_users_and_the_whole_of_those_of_addresses() -> None:
    alice, address = read_entity("users/alice"), read_entity("ips/10.0.0.1")
    assert share(alice, "request_percentage", 50.0, 2) == 25
    assert share(alice, "producer_byte_rate", 5.0, 2) == 3
    assert share(alice, "controller_mutation_rate", 1.0, 2) == 0.5
    assert share(address, "connection_creation_rate", 3.0, 2) == 3


def test_the_windows_of_mutations_make_their_burst_and_leave_other_quotas_alone(bench: Callable[..., Bench]) -> None:
    made = bench(
        "quotas.users/alice.controller_mutation_rate=2",
        "controller.quota.window.num=3",
        "controller.quota.window.size.seconds=5",
    )
    now_ms = made.time.hi_res_clock_ms()
    managers, (session, client_id) = made.quotas.managers, made.quotas.identities.of(ALICE, "app", now_ms)
    quota = managers.controller_mutation.new_strict_quota_for(session, client_id)
    quota.record(3 * 5 * 2, now_ms)
    quota.record(1, now_ms)
    with pytest.raises(MutationQuotaExceededError) as caught:
        quota.record(1, now_ms)
    assert caught.value.throttle_time_ms == 500
    assert (managers.produce.config.num_quota_samples, managers.produce.config.quota_window_size_seconds) == (11, 1)

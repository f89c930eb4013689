"""The manager on any trace of clients, connections, edits, time and a failing log, against a small model."""

import uuid
from dataclasses import dataclass, field

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fleetgauge.base.clock import MockTime
from fleetgauge.base.errors import ErrorCode
from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.telemetry.manager import ClientMetricsManager
from fleetgauge.telemetry.plugin import RequestContext
from fleetgauge.telemetry.push import Push as AcceptedPush
from fleetgauge.telemetry.push_record import PushIds
from fleetgauge.telemetry.settings import ClientMetricsSettings
from fleetgauge.telemetry.subscriptions.subscription_id import subscription_checksum, subscription_id

CLIENTS = range(3)
CONNECTIONS = ["c0", "c1", "c2", "c3"]
INTERVALS = [100, 60_000]
clients = st.sampled_from(CLIENTS)
connections = st.sampled_from(CONNECTIONS)


@dataclass
class Times:
    """When the latest Get and push came that were let through; of one connection, or of all."""

    get_ms: int | None = None
    push_ms: int | None = None
    terminated: bool = False

    def begin_with(self, other: "Times") -> "Times":
        """These times, and the other's where there are none."""
        return Times(
            other.get_ms if self.get_ms is None else self.get_ms,
            other.push_ms if self.push_ms is None else self.push_ms,
            self.terminated,
        )


@dataclass
class Known:
    """What the model holds of a client that the node should remember."""

    interval_ms: int
    connections: dict[str, Times] = field(default_factory=dict)
    latest: Times = field(default_factory=Times)
    seen_ms: int = 0
    due_after_get: bool = False
    cure_opens: bool = True
    """The latest push was due, so that a Get that cures its error makes the next one due."""
    error: ErrorCode = ErrorCode.NONE
    ended_ms: int | None = None
    """When the latest terminating push was accepted, on any connection; the next one is due an interval later."""


@dataclass
class Push:
    client_instance_id: uuid.UUID
    subscription_id: int
    terminating: bool
    compression_type: int
    metrics: bytes


class ManagerAgainstModel(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.time = MockTime()
        self.interval_ms = INTERVALS[0]
        self.manager = ClientMetricsManager(
            ClientMetricsSettings(accept_malformed=False, telemetry_max_bytes=9),
            node_id=1,
            cluster_id="c",
            metrics=Metrics(time=self.time),
            push_ids=PushIds(),
        )
        self.manager.subscriptions.update("s", {"metrics": "*", "interval.ms": str(self.interval_ms)})
        self.ids = [uuid.UUID(int=5 + client // 2) for client in CLIENTS]  # two clients share an id
        self.subscription_ids = [0 for _ in CLIENTS]
        self.model: dict[int, Known] = {}

    def context(self, client: int, connection: str) -> RequestContext:
        return RequestContext(
            listener_name="L",
            security_protocol="PLAINTEXT",
            principal=KafkaPrincipal("User", f"user-{client}"),
            client_id="",
            client_software_name="",
            client_software_version="",
            client_address="127.0.0.1",
            client_port=1,
            connection_id=connection,
            correlation_id=0,
            request_type=72,
            request_version=0,
        )

    @property
    def now_ms(self) -> int:
        return self.time.hi_res_clock_ms()

    def known(self, client: int, connection: str) -> Known:
        state = self.model.setdefault(client, Known(self.interval_ms))
        if state.interval_ms != self.interval_ms:
            state.interval_ms = self.interval_ms
            state.ended_ms = None
            for times in (state.latest, *state.connections.values()):
                times.get_ms = times.push_ms = None
        state.connections.setdefault(connection, Times())
        state.seen_ms = self.now_ms
        return state

    def passed(self, since_ms: int | None) -> bool:
        return since_ms is None or self.now_ms - since_ms >= self.interval_ms

    @rule(client=clients, connection=connections)
    def get(self, client: int, connection: str) -> None:
        state = self.known(client, connection)
        cured = state.error in (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        times = state.connections[connection].begin_with(state.latest)
        due = cured or (self.passed(times.get_ms) and self.passed(times.push_ms))
        result = self.manager.process_get_telemetry_subscriptions(
            self.ids[client], self.context(client, connection), now_ms=self.now_ms
        )
        assert result.client_instance_id == self.ids[client]
        state.error = ErrorCode.NONE if due else ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert result.error_code is state.error
        if not due:
            state.connections[connection] = times
        else:
            state.connections[connection].get_ms = state.latest.get_ms = self.now_ms
            state.due_after_get |= state.cure_opens or not cured
            self.subscription_ids[client] = result.subscription_id
            assert result.push_interval_ms == self.interval_ms

    def expected(self, state: Known, connection: str, push: Push, right_id: bool) -> ErrorCode:
        times = state.connections[connection].begin_with(state.latest)
        if times.terminated:
            return ErrorCode.INVALID_REQUEST
        may_end = push.terminating and self.passed(state.ended_ms)
        if not (may_end or state.due_after_get or self.passed(times.push_ms)):
            state.connections[connection] = times
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if not right_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if push.compression_type:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if push.metrics:
            return ErrorCode.TELEMETRY_TOO_LARGE if len(push.metrics) > 9 else ErrorCode.INVALID_RECORD
        return ErrorCode.NONE

    @rule(
        client=clients,
        connection=connections,
        terminating=st.booleans(),
        log_works=st.booleans(),
        compression_type=st.sampled_from([0, 0, 0, 9]),
        metrics=st.sampled_from([b"", b"", b"\x0a\x09", bytes(20)]),
    )
    def push(
        self,
        client: int,
        connection: str,
        terminating: bool,
        log_works: bool,
        compression_type: int,
        metrics: bytes,
    ) -> None:
        state = self.known(client, connection)
        push = Push(self.ids[client], self.subscription_ids[client], terminating, compression_type, metrics)
        times = state.connections[connection].begin_with(state.latest)
        due = state.due_after_get or self.passed(times.push_ms)
        expected = self.expected(state, connection, push, self.right_id(client) == push.subscription_id)
        if expected not in (ErrorCode.INVALID_REQUEST, ErrorCode.THROTTLING_QUOTA_EXCEEDED):
            state.cure_opens = due
        outcome = self.manager.process_push_telemetry(
            push, self.context(client, connection), now_ms=self.now_ms, received_at_us=0
        )
        if isinstance(outcome, AcceptedPush):
            assert expected is ErrorCode.NONE
            (self.manager.logged if log_works else self.manager.not_logged)((outcome,), self.now_ms)
            state.error = ErrorCode.NONE if log_works else ErrorCode.THROTTLING_QUOTA_EXCEEDED
            state.connections[connection].terminated = terminating and log_works
            if terminating:
                state.ended_ms = self.now_ms if log_works else None
        else:
            assert outcome is expected
            state.error = outcome
        if expected is ErrorCode.INVALID_RECORD or (expected is ErrorCode.NONE and log_works):
            state.connections[connection].push_ms = state.latest.push_ms = self.now_ms
            state.due_after_get = False

    def right_id(self, client: int) -> int:
        return subscription_id(subscription_checksum(["*"], self.interval_ms), self.ids[client])

    @rule(wait_ms=st.sampled_from([0, 1, 99, 100, 60_000, 180_000]))
    def wait(self, wait_ms: int) -> None:
        self.time.sleep(wait_ms)

    @rule(interval_ms=st.sampled_from(INTERVALS))
    def edit(self, interval_ms: int) -> None:
        self.manager.subscriptions.update("s", {"metrics": "*", "interval.ms": str(interval_ms)})
        self.interval_ms = interval_ms

    @rule(connection=connections)
    def disconnect(self, connection: str) -> None:
        self.expire()
        self.manager.instances.disconnect(connection, self.now_ms)
        for client, state in list(self.model.items()):
            if connection in state.connections:
                del state.connections[connection]
                if not state.connections:
                    del self.model[client]

    @precondition(lambda self: self.model)
    @rule()
    def expire(self) -> None:
        self.manager.instances.expire(self.now_ms)
        for client, state in list(self.model.items()):
            if self.now_ms - state.seen_ms >= max(60_000, 3 * state.interval_ms):
                del self.model[client]

    @invariant()
    def the_node_remembers_whom_the_model_remembers(self) -> None:
        assert len(self.manager.instances.cache) == len(self.model)


TestManagerAgainstModel = ManagerAgainstModel.TestCase
TestManagerAgainstModel.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)

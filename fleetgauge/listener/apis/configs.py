"""DescribeConfigs (32), AlterConfigs (33), IncrementalAlterConfigs (44), ListConfigResources (74).

What `kafka-client-metrics.sh` and `kafka-configs.sh` send, answered as by a broker of Kafka 4.3: resources of type
CLIENT_METRICS can be changed, those of type BROKER only be read, others are refused. See
`telemetry.subscriptions.overrides` for the checks.

Who may use them is decided by the listener: one that is not in `admin.listeners` answers each request with
CLUSTER_AUTHORIZATION_FAILED. Allowed requests are read and answered in a thread, off the listener's loop.
"""

import asyncio
import datetime
import enum
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import structlog
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode

from base.clock import Time
from base.errors import ErrorCode, FleetgaugeError, InvalidConfigError, InvalidRequestError, KafkaError
from base.log_limiter import LogLimiter
from fleetgauge.client_metrics import ClientMetrics, Transaction
from fleetgauge.listener.apis.broker_configs import BrokerConfigs, ConfigType
from fleetgauge.listener.apis.messages import answer, new_part
from fleetgauge.listener.request_quota import RequestQuota
from push_log.log import PushLogError
from telemetry.subscriptions.overrides import Alteration, ClientMetricsResources, ConfigSource, ConfigValue
from telemetry.subscriptions.resources import INTERVAL_MS_CONFIG, MATCH_CONFIG, METRICS_CONFIG
from wire.api_table import ApiKey
from wire.channel import Channel
from wire.codec import Request, read_config_request, read_only_resource
from wire.errors import ProtocolError
from wire.throttled_response import with_throttle_time

log = structlog.get_logger(__name__)

MAX_REFUSED_BYTES: Final = 65_536
"""Largest request that is answered where these APIs are not served; a larger one closes its connection [B]."""
MAX_REFUSED_SEVERAL_BYTES: Final = 1_024
"""The same for a request with several resources, each of which needs an answer: on the loop, in some 5 ms [B]. Tools
ask for one resource a request, whose answer takes constant time."""
MAX_REQUEST_BYTES: Final = 1 << 20
"""Largest request of a tool; a larger one closes its connection [B]."""
MAX_RESOURCES: Final = 1_000
"""Resources of one request; one with more closes its connection: each may need an answer of 10 kB."""
MAX_WAITING_BYTES: Final = 8 << 20
"""Requests that may wait for the thread, on all connections; one more closes its connection [B]."""
_REQUEST_OVERHEAD_BYTES: Final = 1_024
_NO_TIME: Final = datetime.timedelta(0)
_LOGGED_CHARACTERS: Final = 500
_LINES_PER_MINUTE: Final = 60
"""Bounds the lines about refused and malformed requests of all addresses together."""

NOT_SERVED_HERE: Final = (
    "this listener does not serve Kafka's admin APIs: use one that does, or name it in admin.listeners of the node's "
    "configuration"
)
_DOCUMENTATION: Final = {
    INTERVAL_MS_CONFIG: "Metrics push interval in milliseconds",
    MATCH_CONFIG: "Client match criteria",
    METRICS_CONFIG: "Telemetry metric name prefix list",
}


class ResourceType(enum.IntEnum):
    """Kafka's `ConfigResource.Type`."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_LISTED: Final = {
    0: (ResourceType.CLIENT_METRICS,),
    1: (
        ResourceType.GROUP,
        ResourceType.CLIENT_METRICS,
        ResourceType.BROKER_LOGGER,
        ResourceType.BROKER,
        ResourceType.TOPIC,
    ),
}
"""Types that ListConfigResources lists, by version, in Kafka's order. Only two have resources here."""


class _Resource(NamedTuple):
    """What an answer repeats of a request's resource."""

    resource_type: int
    resource_name: str


class ConfigApis:
    """Handlers of the four APIs.

    Args:
        client_metrics: the resources that can be changed.
        brokers: this node's own configuration, to be read.
        listeners: names of the listeners that serve the APIs.
        request_quota: records the time of requests.
        time: the clocks.

    Attributes:
        listeners: as given; may be replaced.
        answers: number of answered requests by "api: outcome", for `fleetgauge status`.
    """

    def __init__(
        self,
        client_metrics: ClientMetrics,
        brokers: BrokerConfigs,
        listeners: Collection[str],
        request_quota: RequestQuota,
        time: Time,
    ) -> None:
        self._client_metrics = client_metrics
        self._brokers = brokers
        self._request_quota = request_quota
        self._time = time
        self._log = LogLimiter(max_lines=_LINES_PER_MINUTE)
        self._waiting_bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.listeners = listeners
        self.answers: Counter[str] = Counter()

    def handle(self, channel: Channel, request: Request) -> bytes | None:
        """Refuses a request at once, or answers it later.

        Raises:
            ProtocolError: the request is too large, too many wait, or it is malformed.
        """
        size = len(request.body)
        if channel.listener_name not in self.listeners:
            return self._refuse(channel, request, size)
        if size > MAX_REQUEST_BYTES:
            raise ProtocolError("admin_request_too_large", f"{size} bytes, at most {MAX_REQUEST_BYTES} are read")
        held = size + _REQUEST_OVERHEAD_BYTES
        if self._waiting_bytes + held > MAX_WAITING_BYTES:
            raise ProtocolError("too_many_admin_requests", f"{self._waiting_bytes} bytes of requests wait already")
        if request.started_ns:
            self._request_quota.record(channel, request)
        self._waiting_bytes += held
        task = asyncio.get_running_loop().create_task(self._answer(channel, request))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._finish(done, held))
        return None

    async def close(self, within_ms: int) -> None:
        """Waits for the requests under way, at most `within_ms` [ms]."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within_ms / 1000)

    def _finish(self, task: asyncio.Task[None], held: int) -> None:
        self._tasks.discard(task)
        self._waiting_bytes -= held

    def _refuse(self, channel: Channel, request: Request, size: int) -> bytes:
        api = ApiKey(request.api_key).name
        self.answers[f"{api}: refused"] += 1
        if self._log.admit((api, channel.client_address), self._time.hi_res_clock_ms()):
            log.warning(
                "admin.request_refused",
                message=NOT_SERVED_HERE,
                api=api,
                listener=channel.listener_name,
                principal=str(channel.principal),
                client_address=channel.client_address,
            )
        if size <= MAX_REFUSED_BYTES:
            if request.api_key == ApiKey.LIST_CONFIG_RESOURCES:
                return _answer_list(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            only = read_only_resource(request)
            if only is not None:
                return _refused(request, [_Resource(*only)])
            if size <= MAX_REFUSED_SEVERAL_BYTES:
                return _refused(request, read_config_request(request).resources)
        raise ProtocolError("admin_request_refused", f"{api} on listener {channel.listener_name}")

    async def _answer(self, channel: Channel, request: Request) -> None:
        api = ApiKey(request.api_key).name
        work = _Work(request, self._brokers, f"{channel.principal}", channel.client_address)
        try:
            response = await self._client_metrics.run(work)
        except ProtocolError as error:
            if self._log.admit((error.reason, channel.client_address), self._time.hi_res_clock_ms()):
                log.warning(
                    "admin.request_malformed",
                    api=api,
                    detail=error.detail,
                    principal=str(channel.principal),
                    client_address=channel.client_address,
                )
            channel.close(error.reason)
            return
        except FleetgaugeError as error:
            # Whether the change is made is not known, and no answer may claim either: the tool tries again.
            log.error("admin.request_failed", api=api, error=str(error))
            channel.close("admin_request_failed")
            return
        except Exception:
            log.exception("admin.request_failed", api=api)
            channel.close("handler_error")
            return
        self.answers[f"{api}: answered"] += 1
        work.log_changes()
        if request.throttle_time_ms:
            response = with_throttle_time(response, request.api_key, request.api_version, request.throttle_time_ms)
        channel.respond(request.slot, response)
        channel.flush()


class _Work:
    """One allowed request: called in the thread, returns the response."""

    def __init__(self, request: Request, brokers: BrokerConfigs, principal: str, client_address: str) -> None:
        self._request = request
        self._brokers = brokers
        self._principal = principal
        self._client_address = client_address
        self._changes: list[tuple[str, dict[str, str], dict[str, str]]] = []

    def __call__(self, transaction: Transaction) -> bytes:
        request, body = self._request, read_config_request(self._request)
        if request.api_key == ApiKey.LIST_CONFIG_RESOURCES:
            return self._list(transaction, body)
        if len(body.resources) > MAX_RESOURCES:
            raise ProtocolError("too_many_admin_resources", f"{len(body.resources)}, at most {MAX_RESOURCES} are taken")
        if request.api_key == ApiKey.DESCRIBE_CONFIGS:
            return self._describe(transaction, body)
        return self._alter(transaction, body)

    def log_changes(self) -> None:
        """Writes who changed what to the log."""
        for name, before, after in self._changes:
            log.info(
                "admin.client_metrics_changed",
                name=name[:_LOGGED_CHARACTERS],
                before={key: value[:_LOGGED_CHARACTERS] for key, value in before.items()},
                after={key: value[:_LOGGED_CHARACTERS] for key, value in after.items()},
                principal=self._principal,
                client_address=self._client_address,
            )

    def _list(self, transaction: Transaction, body: Any) -> bytes:
        listed = _LISTED[self._request.api_version]
        wanted = getattr(body, "resource_types", ()) or listed
        if not set(wanted) <= set(listed):
            return _answer_list(self._request, ErrorCode.UNSUPPORTED_VERSION)
        found = [(ResourceType.CLIENT_METRICS, name) for name in transaction.resources().effective()]
        found.append((ResourceType.BROKER, self._brokers.name))
        return _answer_list(
            self._request,
            ErrorCode.NONE,
            [each for kind in listed for each in found if each[0] == kind and kind in wanted],
        )

    def _describe(self, transaction: Transaction, body: Any) -> bytes:
        resources = transaction.resources()
        describe = _Describe(self._request, body, resources, self._brokers)
        return answer(
            self._request, throttle_time=_NO_TIME, results=tuple(describe.result(each) for each in body.resources)
        )

    def _alter(self, transaction: Transaction, body: Any) -> bytes:
        """Applies the request's changes in one transaction; a refused resource does not keep the others from theirs."""
        errors: list[KafkaError | None] = []

        def alter(resources: ClientMetricsResources) -> ClientMetricsResources:
            before, after = resources, resources
            repeated = _repeated(body.resources)
            for each in body.resources:
                try:
                    if (each.resource_type, each.resource_name) in repeated:
                        raise InvalidRequestError("Each resource must appear at most once.")
                    after = self._altered(after, each)
                    errors.append(None)
                except KafkaError as error:
                    errors.append(error)
            if body.validate_only:
                return before
            self._changes = list(_differences(before, after))
            return after

        try:
            if body.validate_only:
                alter(transaction.resources())
            else:
                transaction.change(alter)
        except PushLogError as error:
            log.error("admin.state_not_written", error=str(error))
            self._changes = []
            errors = [KafkaError(f"the node cannot write its state: {error}")] * len(body.resources)
        return _answer_alter(self._request, body.resources, errors)

    def _altered(self, resources: ClientMetricsResources, asked: Any) -> ClientMetricsResources:
        keys = [each.name for each in asked.configs]
        if asked.resource_type != ResourceType.CLIENT_METRICS:
            self._refuse_type(asked, keys)
        if self._request.api_key == ApiKey.ALTER_CONFIGS:
            if len(set(keys)) < len(keys):
                raise InvalidRequestError("Error due to duplicate config keys")
            return resources.replaced(asked.resource_name, {each.name: each.value for each in asked.configs})
        alterations = [Alteration(each.name, each.config_operation, each.value) for each in asked.configs]
        return resources.altered(asked.resource_name, alterations)

    def _refuse_type(self, asked: Any, keys: list[str]) -> None:
        kind, name = asked.resource_type, asked.resource_name
        if kind == ResourceType.BROKER:
            self._brokers.refuse(name, keys)
        if kind == ResourceType.TOPIC:
            raise _UnknownTopicError(f"The topic '{name}' does not exist.")
        if kind in (ResourceType.GROUP, ResourceType.BROKER_LOGGER):
            raise InvalidConfigError(f"This node has no configurations of type {ResourceType(kind).name}")
        raise InvalidRequestError(f"Unknown resource type {kind}")


class _UnknownTopicError(KafkaError):
    """A topic; this node has none."""

    error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class _NotServedError(KafkaError):
    """The listener does not serve the APIs."""

    error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class _Describe:
    """Makes the results of one DescribeConfigs request."""

    def __init__(self, request: Request, body: Any, resources: ClientMetricsResources, brokers: BrokerConfigs) -> None:
        self._schema: Any = load_response_schema(request.api_key, request.api_version)
        self._synonyms = body.include_synonyms
        self._documentation = getattr(body, "include_documentation", False)
        self._resources = resources
        self._brokers = brokers

    def result(self, asked: Any) -> Any:
        wanted = asked.configuration_keys
        try:
            configs = tuple(each for each in self._configs(asked) if not wanted or each.name in wanted)
        except KafkaError as error:
            return _describe_error(self._schema, asked, error)
        return _describe_result(self._schema, asked, ErrorCode.NONE, "", configs)

    def _configs(self, asked: Any) -> Iterator[Any]:
        kind, name = asked.resource_type, asked.resource_name
        if kind == ResourceType.CLIENT_METRICS:
            yield from map(self._client_metrics_config, self._resources.describe(name))
        elif kind == ResourceType.BROKER:
            for each in self._brokers.describe(name):
                yield self._config(
                    each.key, each.value, each.source, ((each.source, each.value),), each.type, is_read_only=True
                )
        elif kind == ResourceType.TOPIC:
            raise _UnknownTopicError
        else:
            known = kind in ResourceType.__members__.values() and kind != ResourceType.UNKNOWN
            shown = ResourceType(kind).name if known else f"UNKNOWN ({kind})"
            raise InvalidRequestError(f"Unsupported resource type: {shown}")

    def _client_metrics_config(self, found: ConfigValue) -> Any:
        kind = ConfigType.INT if found.key == INTERVAL_MS_CONFIG else ConfigType.LIST
        return self._config(found.key, found.value, found.source, found.layers, kind, is_read_only=False)

    def _config(
        self,
        key: str,
        value: str | None,
        source: ConfigSource,
        layers: Iterable[tuple[ConfigSource, str | None]],
        kind: ConfigType,
        *,
        is_read_only: bool,
    ) -> Any:
        synonyms = tuple(
            new_part(self._schema, "DescribeConfigsSynonym", name=key, value=each, source=layer)
            for layer, each in (layers if self._synonyms else ())
        )
        return new_part(
            self._schema,
            "DescribeConfigsResourceResult",
            name=key,
            value=value,
            read_only=is_read_only,
            config_source=source,
            is_sensitive=value is None,
            synonyms=synonyms,
            config_type=kind,
            documentation=_DOCUMENTATION.get(key) if self._documentation else None,
        )


def _repeated(resources: Iterable[Any]) -> set[tuple[int, str]]:
    counted = Counter((each.resource_type, each.resource_name) for each in resources)
    return {each for each, count in counted.items() if count > 1}


def _differences(
    before: ClientMetricsResources, after: ClientMetricsResources
) -> Iterator[tuple[str, dict[str, str], dict[str, str]]]:
    """The resources whose values in force changed: name, values before, values after."""
    old, new = before.effective(), after.effective()
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield name, old.get(name, {}), new.get(name, {})


def _refused(request: Request, resources: Sequence[Any]) -> bytes:
    """The response to a request about these resources on a listener that does not serve it."""
    error = _NotServedError(NOT_SERVED_HERE)
    if request.api_key == ApiKey.DESCRIBE_CONFIGS:
        schema: Any = load_response_schema(request.api_key, request.api_version)
        results = tuple(_describe_error(schema, each, error) for each in resources)
        return answer(request, throttle_time=_NO_TIME, results=results)
    return _answer_alter(request, resources, [error] * len(resources))


def _answer_list(request: Request, error: ErrorCode, found: Iterable[tuple[ResourceType, str]] = ()) -> bytes:
    schema: Any = load_response_schema(request.api_key, request.api_version)
    resources = tuple(
        new_part(schema, "ConfigResource", resource_name=name, resource_type=kind) for kind, name in found
    )
    return answer(request, throttle_time=_NO_TIME, error_code=KioErrorCode(error), config_resources=resources)


def _answer_alter(request: Request, asked: Iterable[Any], errors: Iterable[KafkaError | None]) -> bytes:
    schema: Any = load_response_schema(request.api_key, request.api_version)
    responses = tuple(
        new_part(
            schema,
            "AlterConfigsResourceResponse",
            error_code=KioErrorCode(error.error_code if error else ErrorCode.NONE),
            error_message=str(error) if error else None,
            resource_type=each.resource_type,
            resource_name=each.resource_name,
        )
        for each, error in zip(asked, errors, strict=True)
    )
    return answer(request, throttle_time=_NO_TIME, responses=responses)


def _describe_error(schema: Any, asked: Any, error: KafkaError) -> Any:
    return _describe_result(schema, asked, error.error_code, str(error), ())


def _describe_result(schema: Any, asked: Any, code: ErrorCode, message: str, configs: tuple[Any, ...]) -> Any:
    return new_part(
        schema,
        "DescribeConfigsResult",
        error_code=KioErrorCode(code),
        error_message=message,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=configs,
    )

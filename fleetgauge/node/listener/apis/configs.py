"""DescribeConfigs (32), AlterConfigs (33), IncrementalAlterConfigs (44), ListConfigResources (74).

What `kafka-client-metrics.sh` and `kafka-configs.sh` send, answered as by a broker of Kafka 4.3: resources of type
CLIENT_METRICS can be changed, those of type BROKER only be read, others are refused. See
`telemetry.subscriptions.overrides` for the checks.
"""

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode as KioErrorCode

from fleetgauge.base.errors import ErrorCode, InvalidConfigError, InvalidRequestError, KafkaError
from fleetgauge.node.listener.apis.admin import Change, bounded, not_written
from fleetgauge.node.listener.apis.broker_configs import BrokerConfigs, ConfigType
from fleetgauge.node.listener.apis.messages import answer, error_fields, new_part
from fleetgauge.node.state.client_metrics import ClientMetrics
from fleetgauge.node.state.node_state import Transaction
from fleetgauge.push_log.log import PushLogError
from fleetgauge.telemetry.subscriptions.overrides import Alteration, ClientMetricsResources, ConfigSource, ConfigValue
from fleetgauge.telemetry.subscriptions.resources import INTERVAL_MS_CONFIG, MATCH_CONFIG, METRICS_CONFIG
from fleetgauge.wire.api_table import ApiKey
from fleetgauge.wire.messages.codec import Request, read_only_resource

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
    """Part of a request's resource that the response repeats."""

    resource_type: int
    resource_name: str


class ConfigApis:
    """The four APIs; see `AdminApi`.

    Args:
        client_metrics: the resources that can be changed.
        brokers: this node's own configuration, to be read.
    """

    keys = (
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.LIST_CONFIG_RESOURCES,
    )

    def __init__(self, client_metrics: ClientMetrics, brokers: BrokerConfigs) -> None:
        self._client_metrics = client_metrics
        self._brokers = brokers

    def refusal(self, request: Request, body: Any, error: KafkaError) -> bytes | None:
        """See `AdminApi`: tools ask for one resource a request, whose answer takes constant time."""
        if request.api_key == ApiKey.LIST_CONFIG_RESOURCES:
            return _answer_list(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if body is not None:
            return _refused(request, body.resources, error)
        only = read_only_resource(request)
        return None if only is None else _refused(request, [_Resource(*only)], error)

    def serve(self, request: Request, body: Any, transaction: Transaction) -> tuple[bytes, Sequence[Change]]:
        """See `AdminApi`."""
        if request.api_key == ApiKey.LIST_CONFIG_RESOURCES:
            return self._list(request, body, transaction), ()
        bounded(len(body.resources))
        if request.api_key == ApiKey.DESCRIBE_CONFIGS:
            return self._describe(request, body, transaction), ()
        return self._alter(request, body, transaction)

    def _list(self, request: Request, body: Any, transaction: Transaction) -> bytes:
        listed = _LISTED[request.api_version]
        wanted = getattr(body, "resource_types", ()) or listed
        if not set(wanted) <= set(listed):
            return _answer_list(request, ErrorCode.UNSUPPORTED_VERSION)
        resources = [
            (ResourceType.CLIENT_METRICS, name) for name in self._client_metrics.resources(transaction).effective()
        ]
        resources.append((ResourceType.BROKER, self._brokers.name))
        return _answer_list(
            request,
            ErrorCode.NONE,
            [each for kind in listed for each in resources if each[0] == kind and kind in wanted],
        )

    def _describe(self, request: Request, body: Any, transaction: Transaction) -> bytes:
        describe = _Describe(request, body, self._client_metrics.resources(transaction), self._brokers)
        return answer(request, results=tuple(map(describe.result, body.resources)))

    def _alter(self, request: Request, body: Any, transaction: Transaction) -> tuple[bytes, Sequence[Change]]:
        """Applies the request's changes in one transaction; a refused resource does not keep the others from theirs."""
        errors: list[KafkaError | None] = []
        changes: list[Change] = []

        def alter(resources: ClientMetricsResources) -> ClientMetricsResources:
            """Returns the resources after the request, and notes its errors and changes; may be called again."""
            errors.clear()
            before, after = resources, resources
            repeated = _repeated(body.resources)
            for each in body.resources:
                try:
                    if (each.resource_type, each.resource_name) in repeated:
                        raise InvalidRequestError("Each resource must appear at most once.")
                    after = self._altered(request, after, each)
                    errors.append(None)
                except KafkaError as error:
                    errors.append(error)
            if body.validate_only:
                return before
            changes[:] = _differences(before, after)
            return after

        try:
            if body.validate_only:
                alter(self._client_metrics.resources(transaction))
            else:
                self._client_metrics.change(transaction, alter)
        except PushLogError as error:
            return _answer_alter(request, body.resources, [not_written(error)] * len(body.resources)), ()
        return _answer_alter(request, body.resources, errors), changes

    def _altered(self, request: Request, resources: ClientMetricsResources, asked: Any) -> ClientMetricsResources:
        keys = [each.name for each in asked.configs]
        if asked.resource_type != ResourceType.CLIENT_METRICS:
            self._refuse_type(asked, keys)
        if request.api_key == ApiKey.ALTER_CONFIGS:
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


class _Describe:
    """Makes the results of one DescribeConfigs request."""

    def __init__(self, request: Request, body: Any, resources: ClientMetricsResources, brokers: BrokerConfigs) -> None:
        self._request = request
        self._synonyms = body.include_synonyms
        self._documentation = getattr(body, "include_documentation", False)
        self._resources = resources
        self._brokers = brokers

    def result(self, asked: Any) -> Any:
        wanted = asked.configuration_keys
        try:
            configs = tuple(each for each in self._configs(asked) if not wanted or each.name in wanted)
        except KafkaError as error:
            return _described(self._request, asked, error)
        return _described(self._request, asked, None, configs)

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

    def _client_metrics_config(self, value: ConfigValue) -> Any:
        kind = ConfigType.INT if value.key == INTERVAL_MS_CONFIG else ConfigType.LIST
        return self._config(value.key, value.value, value.source, value.layers, kind, is_read_only=False)

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
            new_part(self._request, "DescribeConfigsSynonym", name=key, value=each, source=layer)
            for layer, each in (layers if self._synonyms else ())
        )
        return new_part(
            self._request,
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


def _differences(before: ClientMetricsResources, after: ClientMetricsResources) -> Iterator[Change]:
    """A change for each resource whose values in force differ."""
    old, new = before.effective(), after.effective()
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            fields = {"name": name, "before": old.get(name, {}), "after": new.get(name, {})}
            yield Change("client_metrics.changed", fields)


def _refused(request: Request, resources: Sequence[Any], error: KafkaError) -> bytes:
    """The response to a request about these resources that is refused as a whole."""
    if request.api_key == ApiKey.DESCRIBE_CONFIGS:
        results = tuple(_described(request, each, error) for each in resources)
        return answer(request, results=results)
    return _answer_alter(request, resources, [error] * len(resources))


def _answer_list(request: Request, error: ErrorCode, listed: Iterable[tuple[ResourceType, str]] = ()) -> bytes:
    resources = tuple(
        new_part(request, "ConfigResource", resource_name=name, resource_type=kind) for kind, name in listed
    )
    return answer(request, error_code=KioErrorCode(error), config_resources=resources)


def _answer_alter(request: Request, asked: Iterable[Any], errors: Iterable[KafkaError | None]) -> bytes:
    responses = tuple(
        new_part(
            request,
            "AlterConfigsResourceResponse",
            **error_fields(error),
            resource_type=each.resource_type,
            resource_name=each.resource_name,
        )
        for each, error in zip(asked, errors, strict=True)
    )
    return answer(request, responses=responses)


def _described(request: Request, asked: Any, error: KafkaError | None, configs: tuple[Any, ...] = ()) -> Any:
    return new_part(
        request,
        "DescribeConfigsResult",
        **error_fields(error, without=""),
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=configs,
    )

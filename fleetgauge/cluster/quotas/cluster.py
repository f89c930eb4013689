"""The quotas of a cluster over its Admin API (KIP-546). kafka-python has the messages, but no call for them."""

from collections.abc import Mapping
from typing import Any

from fleetgauge.base.errors import KafkaError
from fleetgauge.cluster.quotas.limits import IP, Entity, Limits, entity_of, entity_path, parts_of
from fleetgauge.cluster.quotas.planning import Changes
from fleetgauge.cluster.subscriptions.connection import NOT_AUTHORIZED, Connection, missing_acl
from fleetgauge.cluster.subscriptions.resources import ClusterError, NotAuthorizedError
from fleetgauge.cluster.subscriptions.settings import ClusterSettings
from fleetgauge.quotas.entity import IpEntity


class QuotaCluster(Connection):
    """A connection for quotas. Use it in `with`.

    Args:
        settings: where the cluster is.

    Raises:
        SubscriptionError: kafka-python is missing, or a setting is not known to it.
        ClusterError: no broker answers, or it refuses the credentials.
    """

    needs = "client quotas (KIP-546) came with Kafka 2.6"

    def __init__(self, settings: ClusterSettings) -> None:
        super().__init__(settings, "fleetgauge-quotas")

    def list(self) -> Limits:
        """All limits.

        Raises:
            NotAuthorizedError: DESCRIBE_CONFIGS is missing.
            ClusterError: the cluster does not answer.
        """
        from kafka.protocol.admin import DescribeClientQuotasRequest

        response = self._send(DescribeClientQuotasRequest(components=[], strict=False), "DESCRIBE_CONFIGS")
        self._check(response, "DESCRIBE_CONFIGS", "to describe quotas")
        return {
            _entity(each.entity): {value.key: value.value for value in each.values} for each in response.entries or ()
        }

    def alter(self, changes: Changes) -> None:
        """Sets and removes limits, all entities in one request.

        Raises:
            NotAuthorizedError: ALTER_CONFIGS is missing.
            ClusterError: a change was refused, with the cluster's words; others of the request may have been made.
        """
        from kafka.protocol.admin import AlterClientQuotasRequest

        entries = [(list(parts_of(entity).items()), _operations(values)) for entity, values in changes.items()]
        response = self._send(AlterClientQuotasRequest(entries=entries, validate_only=False), "ALTER_CONFIGS")
        for each in response.entries:
            self._check(each, "ALTER_CONFIGS", entity_path(_entity(each.entity)))

    def _send(self, request: Any, operation: str) -> Any:
        async def send() -> Any:
            return await self.admin._manager.send(request)

        try:
            return self.admin._manager.run(send)
        except Exception as error:  # OSError and those of kafka.errors
            raise self.failure(error, operation) from error

    def _check(self, answer: Any, operation: str, what: str) -> None:
        if not answer.error_code:
            return
        from kafka.errors import for_code

        kind = for_code(answer.error_code).__name__
        if kind in NOT_AUTHORIZED:
            raise NotAuthorizedError(missing_acl(operation))
        raise ClusterError(f"the cluster refuses {what}: {answer.error_message or kind}")


def _operations(values: Mapping[str, float | None]) -> list[tuple[str, float, bool]]:
    return [(key, 0.0 if value is None else value, value is None) for key, value in values.items()]


def _entity(parts: Any) -> Entity:
    """An entity as a broker describes it; brokers also keep host names as addresses."""
    names = {each.entity_type: each.entity_name for each in parts}
    try:
        return entity_of(names)
    except KafkaError as error:
        if names.keys() == {IP} and names[IP]:
            return IpEntity(names[IP])
        raise ClusterError(f"the cluster has quotas of an entity that is not known here: {names} ({error})") from error

"""The quotas of a cluster over its Admin API (KIP-546). kafka-python has the messages, but no call for them."""

from collections.abc import Mapping
from typing import Any

from fleetgauge.base.errors import KafkaError
from fleetgauge.cluster.connection import Connection, refusal
from fleetgauge.cluster.errors import ClusterError
from fleetgauge.cluster.quotas.limits import IP, Entity, LimitName, entity_of, entity_path, parts_of
from fleetgauge.quotas.entity import IpEntity


class QuotaCluster(Connection):
    """The `plan.Store` of quotas."""

    needs = "client quotas (KIP-546) came with Kafka 2.6"
    client_id = "fleetgauge-quotas"

    def list(self) -> dict[LimitName, float]:
        """See `plan.Store`."""
        from kafka.protocol.admin import DescribeClientQuotasRequest

        response = self._send(DescribeClientQuotasRequest(components=[], strict=False), "DESCRIBE_CONFIGS")
        self._check(response, "DESCRIBE_CONFIGS", "to describe quotas")
        return {
            (_entity(each.entity), value.key): value.value for each in response.entries or () for value in each.values
        }

    def alter(self, wanted: Mapping[LimitName, float | None]) -> None:
        """See `plan.Store`."""
        from kafka.protocol.admin import AlterClientQuotasRequest

        operations: dict[Entity, list[tuple[str, float, bool]]] = {}
        for (entity, key), value in wanted.items():
            operations.setdefault(entity, []).append((key, value or 0.0, value is None))
        entries = [(list(parts_of(entity).items()), of_entity) for entity, of_entity in operations.items()]
        response = self._send(AlterClientQuotasRequest(entries=entries, validate_only=False), "ALTER_CONFIGS")
        for each in response.entries:
            self._check(each, "ALTER_CONFIGS", entity_path(_entity(each.entity)))

    def _send(self, request: Any, operation: str) -> Any:
        return self.request(lambda admin: admin._manager.run(admin._manager.send, request), operation)

    def _check(self, answer: Any, operation: str, what: str) -> None:
        if answer.error_code:
            from kafka.errors import for_code

            kind = for_code(answer.error_code).__name__
            raise refusal(kind, f"{what}: {answer.error_message or kind}", operation)


def _entity(parts: Any) -> Entity:
    """An entity as a broker describes it; brokers also keep host names as addresses."""
    names = {each.entity_type: each.entity_name for each in parts}
    try:
        return entity_of(names)
    except KafkaError as error:
        if names.keys() == {IP} and names[IP]:
            return IpEntity(names[IP])
        raise ClusterError(f"the cluster has quotas of an entity that is not known here: {names} ({error})") from error

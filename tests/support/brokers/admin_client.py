"""Admin requests of any kind and version, encoded by `kio`: what tools send, and what no tool would."""

import io
import itertools
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Self

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from support.clients.raw_client import RawClient, framed, header

LIST, DESCRIBE, ALTER, INCREMENTAL = 74, 32, 33, 44
DESCRIBE_QUOTAS, ALTER_QUOTAS, DESCRIBE_SCRAM, ALTER_SCRAM = 48, 49, 50, 51
DESCRIBE_ACLS, CREATE_ACLS = 29, 30
TOPIC, BROKER, CLIENT_METRICS = 2, 4, 16
SET, DELETE, APPEND, SUBTRACT = range(4)


Entity = Sequence[tuple[str, str | None]]
"""Types and names of a quota entity; None is the default."""


class AdminClient:
    """One connection of a client that sends admin requests one at a time."""

    def __init__(self, port: int) -> None:
        self._raw = RawClient(port, client_id="admin")
        self._correlation_ids = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    def send(self, api_key: int, version: int, *parts: Any, **fields: Any) -> Any:
        """The response to a request with these fields."""
        schema = load_request_schema(api_key, version)
        return self.send_body(api_key, version, encoded(schema(**fields)))

    def send_body(self, api_key: int, version: int, body: bytes) -> Any:
        """The response to a request with this body."""
        schema = load_request_schema(api_key, version)
        head = header(api_key, version, next(self._correlation_ids), "admin")
        self._raw.send(framed((head if schema.__header_schema__.__flexible__ else head[:-1]) + body))
        frame = self._raw.receive_frame()
        answer = load_response_schema(api_key, version)
        message, _size = entity_reader(answer)(frame, 5 if answer.__header_schema__.__flexible__ else 4)
        return message

    @staticmethod
    def part(api_key: int, name: str, version: int = 3, /, **fields: Any) -> Any:
        """A nested message of a request."""
        return getattr(sys.modules[load_request_schema(api_key, version).__module__], name)(**fields)

    def names(self) -> list[str]:
        """The client-metrics resources."""
        listed = self.send(LIST, 1, resource_types=(CLIENT_METRICS,))
        assert listed.error_code.value == 0
        return [each.resource_name for each in listed.config_resources]

    def describe(
        self, *resources: tuple[int, str], keys: tuple[str, ...] | None = None, version: int = 4, synonyms: bool = True
    ) -> Any:
        """The results of DescribeConfigs."""
        schema = load_request_schema(DESCRIBE, version)
        part = sys.modules[schema.__module__].DescribeConfigsResource
        asked = tuple(part(resource_type=kind, resource_name=name, configuration_keys=keys) for kind, name in resources)
        fields: dict[str, Any] = {"resources": asked, "include_synonyms": synonyms}
        return self.send(
            DESCRIBE, version, **fields, **({"include_documentation": True} if version >= 3 else {})
        ).results

    def incremental(
        self,
        *resources: tuple[int, str, Sequence[tuple[str, int, str | None]]],
        validate: bool = False,
        version: int = 1,
    ) -> list[tuple[int, str | None]]:
        """The errors of IncrementalAlterConfigs: (type, name, [(key, operation, value)]) each."""
        module = sys.modules[load_request_schema(INCREMENTAL, version).__module__]
        parts = tuple(
            module.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=tuple(
                    module.AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in configs
                ),
            )
            for kind, name, configs in resources
        )
        response = self.send(INCREMENTAL, version, resources=parts, validate_only=validate)
        return [(each.error_code.value, each.error_message) for each in response.responses]

    def alter(
        self, *resources: tuple[int, str, Mapping[str, str | None]], validate: bool = False, version: int = 2
    ) -> list[tuple[int, str | None]]:
        """The errors of AlterConfigs."""
        module = sys.modules[load_request_schema(ALTER, version).__module__]
        parts = tuple(
            module.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=tuple(module.AlterableConfig(name=key, value=value) for key, value in configs.items()),
            )
            for kind, name, configs in resources
        )
        response = self.send(ALTER, version, resources=parts, validate_only=validate)
        return [(each.error_code.value, each.error_message) for each in response.responses]

    def alter_quotas(
        self, *entries: tuple[Entity, Mapping[str, float | None]], validate: bool = False, version: int = 1
    ) -> list[tuple[int, str | None, Entity]]:
        """The errors of AlterClientQuotas: ([(type, name)], {key: value, or None to remove it}) each."""
        module = sys.modules[load_request_schema(ALTER_QUOTAS, version).__module__]
        parts = tuple(
            module.EntryData(
                entity=tuple(module.EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
                ops=tuple(
                    module.OpData(key=key.rstrip(" "), value=value or 0.0, remove=value is None)
                    for key, value in values.items()
                ),
            )
            for entity, values in entries
        )
        response = self.send(ALTER_QUOTAS, version, entries=parts, validate_only=validate)
        return [
            (
                each.error_code.value,
                each.error_message,
                sorted((one.entity_type, one.entity_name) for one in each.entity),
            )
            for each in response.entries
        ]

    def quotas(
        self, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
    ) -> tuple[int, str | None, dict[tuple[tuple[str, str | None], ...], dict[str, float]]]:
        """Error, message and entities of DescribeClientQuotas: (type, match type, match) each."""
        module = sys.modules[load_request_schema(DESCRIBE_QUOTAS, version).__module__]
        parts = tuple(
            module.ComponentData(entity_type=kind, match_type=how, match=match) for kind, how, match in components
        )
        response = self.send(DESCRIBE_QUOTAS, version, components=parts, strict=strict)
        found = {
            tuple(sorted((one.entity_type, one.entity_name) for one in each.entity)): {
                value.key: value.value for value in each.values
            }
            for each in response.entries or ()
        }
        return response.error_code.value, response.error_message, found

    def alter_scram(
        self,
        *,
        delete: Sequence[tuple[str, int]] = (),
        upsert: Sequence[tuple[str, int, int, bytes, bytes]] = (),
    ) -> dict[str, tuple[int, str | None]]:
        """The errors of AlterUserScramCredentials by user: (name, mechanism[, iterations, salt, salted password])."""
        module = sys.modules[load_request_schema(ALTER_SCRAM, 0).__module__]
        deletions = tuple(module.ScramCredentialDeletion(name=name, mechanism=number) for name, number in delete)
        upsertions = tuple(
            module.ScramCredentialUpsertion(
                name=name, mechanism=number, iterations=iterations, salt=salt, salted_password=salted
            )
            for name, number, iterations, salt, salted in upsert
        )
        response = self.send(ALTER_SCRAM, 0, deletions=deletions, upsertions=upsertions)
        return {each.user: (each.error_code.value, each.error_message) for each in response.results}

    def scram(self, *names: str) -> dict[str, tuple[int, str | None, dict[int, int]]]:
        """Error, message and iterations by mechanism of each user, by DescribeUserScramCredentials."""
        module = sys.modules[load_request_schema(DESCRIBE_SCRAM, 0).__module__]
        response = self.send(DESCRIBE_SCRAM, 0, users=tuple(module.UserName(name=name) for name in names) or None)
        assert response.error_code.value == 0, response
        return {
            each.user: (
                each.error_code.value,
                each.error_message,
                {info.mechanism: info.iterations for info in each.credential_infos},
            )
            for each in response.results
        }

    def allow_read(self, principal: str, topic: str) -> tuple[int, str | None]:
        """The error of creating an ACL that allows READ on a topic."""
        pattern: dict[str, Any] = {"resource_type": 2, "resource_name": topic, "resource_pattern_type": 3}
        access: dict[str, Any] = {"principal": principal, "host": "*", "operation": 3, "permission_type": 3}
        made = self.part(CREATE_ACLS, "AclCreation", **pattern, **access)
        (result,) = self.send(CREATE_ACLS, 3, creations=(made,)).results
        return result.error_code.value, result.error_message or None

    def topics_of(self, principal: str) -> set[str]:
        """The topics on which ACLs allow a principal anything."""
        pattern = {"resource_type_filter": 2, "resource_name_filter": None, "pattern_type_filter": 1}
        access = {"principal_filter": principal, "host_filter": None, "operation": 1, "permission_type": 1}
        found = self.send(DESCRIBE_ACLS, 3, **pattern, **access)
        assert found.error_code.value == 0, found
        return {each.resource_name for each in found.resources}

    def set(self, name: str, **values: str) -> tuple[int, str | None]:
        """The error of setting keys of one resource; `interval_ms` stands for interval.ms."""
        configs: list[tuple[str, int, str | None]] = [
            (key.replace("_", "."), SET, value) for key, value in values.items()
        ]
        return self.incremental((CLIENT_METRICS, name, configs))[0]


def encoded(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()

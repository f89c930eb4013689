"""Admin requests of any kind and version, encoded by `kio`: what tools send, and what no tool would."""

import io
import itertools
import sys
from typing import Any, Self

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from support.raw_client import RawClient, framed, header

LIST, DESCRIBE, ALTER, INCREMENTAL = 74, 32, 33, 44
TOPIC, BROKER, CLIENT_METRICS = 2, 4, 16
SET, DELETE, APPEND, SUBTRACT = range(4)


class AdminClient:
    """One connection of a client that sends admin requests one at a time."""

    def __init__(self, port: int) -> None:
        self._raw = RawClient(port, client_id="admin", timeout_s=60)
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
        self, *resources: tuple[int, str, list[tuple[str, int, str | None]]], validate: bool = False, version: int = 1
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
        self, *resources: tuple[int, str, dict[str, str | None]], validate: bool = False, version: int = 2
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

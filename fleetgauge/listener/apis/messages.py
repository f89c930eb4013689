"""Builds `kio` responses for the requested version; omits fields that the version lacks."""

import dataclasses
import functools
import sys
from typing import Any

from kio.index import load_response_schema

from wire.codec import Request, encode_response


def new_response(api_key: int, api_version: int, **values: Any) -> Any:
    """Returns a response message of the given key and version, with the fields of `values` that it has."""
    return _fitted(load_response_schema(api_key, api_version), values)


def answer(request: Request, **values: Any) -> bytes:
    """Returns the encoded response to a request, with the fields of `values` that its version has."""
    return encode_response(request.correlation_id, new_response(request.api_key, request.api_version, **values))


def new_part(response: Any, part: str, **values: Any) -> Any:
    """Returns a nested message from the module that defines `response` (a message or its class).

    Args:
        response: for example a `MetadataResponse` class of some version.
        part: the nested class's name, for example `MetadataResponseBroker`.
        values: its fields; those that the version lacks are omitted.
    """
    module = sys.modules[response.__module__ if isinstance(response, type) else type(response).__module__]
    return _fitted(getattr(module, part), values)


def _fitted(message_class: Any, values: dict[str, Any]) -> Any:
    names = _field_names(message_class)
    return message_class(**{name: value for name, value in values.items() if name in names})


@functools.cache
def _field_names(message_class: Any) -> frozenset[str]:
    """Field names of a message class. Cached: called for every topic of a Metadata request."""
    return frozenset(field.name for field in dataclasses.fields(message_class))

"""Builds `kio` responses for the requested version; omits fields that the version lacks."""

import dataclasses
import datetime
import functools
import sys
from typing import Any, Final

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode

from fleetgauge.base.errors import ErrorCode, KafkaError
from fleetgauge.wire.messages.codec import Request, encode_response

_NOT_THROTTLED: Final = datetime.timedelta(0)


def new_response(api_key: int, api_version: int, **values: Any) -> Any:
    """Returns a response message of the given key and version, with the fields of `values` that it has."""
    return _fitted(load_response_schema(api_key, api_version), values)


def answer(request: Request, **values: Any) -> bytes:
    """Returns the encoded response to a request, with the fields of `values` that its version has.

    Its throttle time is 0 unless `values` have one: `RequestQuota` writes that of a request quota.
    """
    values = {"throttle_time": _NOT_THROTTLED, **values}
    return encode_response(request.correlation_id, new_response(request.api_key, request.api_version, **values))


def new_part(request: Request, part: str, **values: Any) -> Any:
    """Returns a nested message of the response to a request, with the fields of `values` that its version has.

    Args:
        request: the request.
        part: the nested class's name, for example `MetadataResponseBroker`.
        values: its fields.
    """
    return _fitted(_part_class(request.api_key, request.api_version, part), values)


def error_fields(error: KafkaError | None, without: str | None = None) -> dict[str, Any]:
    """The fields of an error, or of none; `without` is the message then, as Kafka writes it."""
    return {
        "error_code": KioErrorCode(error.error_code if error else ErrorCode.NONE),
        "error_message": str(error) if error else without,
    }


def _fitted(message_class: Any, values: dict[str, Any]) -> Any:
    names = _field_names(message_class)
    return message_class(**{name: value for name, value in values.items() if name in names})


@functools.cache
def _part_class(api_key: int, api_version: int, part: str) -> Any:
    return getattr(sys.modules[load_response_schema(api_key, api_version).__module__], part)


@functools.cache
def _field_names(message_class: Any) -> frozenset[str]:
    """Field names of a message class. Cached: called for every topic of a Metadata request."""
    return frozenset(field.name for field in dataclasses.fields(message_class))

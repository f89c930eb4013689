"""ApiVersions (18): the served APIs, and the client's software name and version."""

import datetime
from typing import Any

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode

from base.errors import ErrorCode
from fleetgauge.listener.apis.messages import new_part, new_response
from wire.api_table import Api, ApiKey, ApiTable
from wire.codec import Request, encode_response
from wire.listener import Channel
from wire.software import MAX_KEPT_CHARACTERS, is_valid_software

_NO_TIME = datetime.timedelta(0)


def handle_api_versions(table: ApiTable, channel: Channel, request: Request) -> bytes:
    """Answers with the served APIs; stores the client's software name and version with the connection.

    A newer version than supported is answered in the layout of version 0 with UNSUPPORTED_VERSION and the supported
    versions of ApiVersions, so that the client falls back (KIP-511); a software name or version that does not match
    Kafka's pattern is answered with INVALID_REQUEST.
    """
    if not table.is_supported(ApiKey.API_VERSIONS, request.api_version):
        return _answer(table, request, 0, ErrorCode.UNSUPPORTED_VERSION)
    name = getattr(request.body, "client_software_name", None)
    version = getattr(request.body, "client_software_version", None)
    if name is not None and version is not None:
        if not (is_valid_software(name) and is_valid_software(version)):
            return _answer(table, request, request.api_version, ErrorCode.INVALID_REQUEST)
        channel.client_software_name = name[:MAX_KEPT_CHARACTERS]
        channel.client_software_version = version[:MAX_KEPT_CHARACTERS]
        channel.instances = None
    return _answer(table, request, request.api_version, ErrorCode.NONE)


def _answer(table: ApiTable, request: Request, version: int, error: ErrorCode) -> bytes:
    schema: Any = load_response_schema(ApiKey.API_VERSIONS, version)
    keys = tuple(
        new_part(schema, "ApiVersion", api_key=api.key, min_version=api.min_version, max_version=api.max_version)
        for api in _listed(table, error)
    )
    response = new_response(
        ApiKey.API_VERSIONS, version, error_code=KioErrorCode(error), api_keys=keys, throttle_time=_NO_TIME
    )
    return encode_response(request.correlation_id, response)


def _listed(table: ApiTable, error: ErrorCode) -> tuple[Api, ...]:
    """APIs in a response, by error as in Kafka: all, only ApiVersions, or none."""
    if error is ErrorCode.NONE:
        return table.advertised()
    itself = table.find(ApiKey.API_VERSIONS)
    return (itself,) if error is ErrorCode.UNSUPPORTED_VERSION and itself is not None else ()

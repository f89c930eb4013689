"""ApiVersions (18): the served APIs, and the client's software name and version."""

import dataclasses

from kio.schema.errors import ErrorCode as KioErrorCode

from fleetgauge.base.errors import ErrorCode
from fleetgauge.base.software import MAX_KEPT_CHARACTERS, is_valid_software
from fleetgauge.node.listener.apis.messages import answer, new_part
from fleetgauge.wire.api_table import Api, ApiKey, ApiTable
from fleetgauge.wire.listener import Channel
from fleetgauge.wire.messages.codec import Request


def handle_api_versions(table: ApiTable, channel: Channel, request: Request) -> bytes:
    """Answers with the served APIs; stores the client's software name and version with the connection.

    A newer version than supported is answered in the layout of version 0 with UNSUPPORTED_VERSION and the supported
    versions of ApiVersions, so that the client falls back (KIP-511); a software name or version that does not match
    Kafka's pattern is answered with INVALID_REQUEST.
    """
    if not table.is_supported(ApiKey.API_VERSIONS, request.api_version):
        return _answer(table, dataclasses.replace(request, api_version=0), ErrorCode.UNSUPPORTED_VERSION)
    name = getattr(request.body, "client_software_name", None)
    version = getattr(request.body, "client_software_version", None)
    if name is not None and version is not None:
        if not (is_valid_software(name) and is_valid_software(version)):
            return _answer(table, request, ErrorCode.INVALID_REQUEST)
        channel.client_software_name = name[:MAX_KEPT_CHARACTERS]
        channel.client_software_version = version[:MAX_KEPT_CHARACTERS]
        channel.push_templates = ()
    return _answer(table, request, ErrorCode.NONE)


def _answer(table: ApiTable, request: Request, error: ErrorCode) -> bytes:
    keys = tuple(
        new_part(request, "ApiVersion", api_key=api.key, min_version=api.min_version, max_version=api.max_version)
        for api in _listed(table, error)
    )
    return answer(request, error_code=KioErrorCode(error), api_keys=keys)


def _listed(table: ApiTable, error: ErrorCode) -> tuple[Api, ...]:
    """APIs in a response, by error as in Kafka: all, only ApiVersions, or none."""
    if error is ErrorCode.NONE:
        return table.advertised()
    itself = table.find(ApiKey.API_VERSIONS)
    return (itself,) if error is ErrorCode.UNSUPPORTED_VERSION and itself is not None else ()

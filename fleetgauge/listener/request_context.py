"""Request contexts: the sender of a request, in the form for `telemetry` and reporters."""

import dataclasses

from telemetry.plugin import RequestContext
from wire.channel import Channel


def request_context(channel: Channel, client_id: str, correlation_id: int, *, is_exact: bool) -> RequestContext:
    """Returns the context of a request; cached with the connection, since its values rarely change.

    Args:
        channel: the connection.
        client_id: client id of the request header; empty for none.
        correlation_id: correlation id of the request header.
        is_exact: True if the correlation id must be exact, as reporters need it; else it may be of an earlier request.
    """
    kept = channel.attachment
    if isinstance(kept, RequestContext) and _describes(kept, channel, client_id):
        return dataclasses.replace(kept, correlation_id=correlation_id) if is_exact else kept
    channel.attachment = context = RequestContext(
        listener_name=channel.listener_name,
        security_protocol=channel.security_protocol,
        principal=channel.principal,
        client_id=client_id,
        client_software_name=channel.client_software_name,
        client_software_version=channel.client_software_version,
        client_address=channel.client_address,
        client_port=channel.client_port,
        connection_id=channel.connection_id,
        correlation_id=correlation_id,
    )
    return context


def _describes(context: RequestContext, channel: Channel, client_id: str) -> bool:
    """True if at most the correlation id differs. Compares by identity, since unchanged values are the same objects."""
    return (
        context.client_id == client_id
        and context.client_software_name is channel.client_software_name
        and context.client_software_version is channel.client_software_version
        and context.principal is channel.principal
    )

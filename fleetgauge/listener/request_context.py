"""Who sends a request, in the form that `telemetry` and its reporters know."""

import dataclasses

from telemetry.plugin import RequestContext
from wire.channel import Channel


def request_context(channel: Channel, client_id: str, correlation_id: int, *, is_exact: bool) -> RequestContext:
    """The context of a request; kept with the connection, since what a connection knows of its client hardly changes.

    Args:
        channel: the connection.
        client_id: of the request's header; empty for none.
        correlation_id: likewise.
        is_exact: the correlation id counts. Only reporters look at it; else it may be that of an earlier request.
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
    """True if nothing but the correlation id can differ; what stands still is one and the same object."""
    return (
        context.client_id == client_id
        and context.client_software_name is channel.client_software_name
        and context.client_software_version is channel.client_software_version
        and context.principal is channel.principal
    )

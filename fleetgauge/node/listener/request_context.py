"""Request contexts: the sender of a request, in the form for `telemetry` and reporters."""

import dataclasses

from fleetgauge.telemetry.plugin import RequestContext
from fleetgauge.wire.context.channel import Channel
from fleetgauge.wire.messages.codec import Request


def request_context(channel: Channel, request: Request, *, is_exact: bool) -> RequestContext:
    """Returns the context of a request; cached with the connection, since its values rarely change.

    Args:
        channel: the connection.
        request: on it.
        is_exact: True if what differs by request must be exact, as reporters need it: correlation id, type and version;
            else they may be of an earlier request.
    """
    kept, client_id = channel.attachment, request.client_id or ""
    if isinstance(kept, RequestContext) and _describes(kept, channel, client_id):
        if not is_exact:
            return kept
        return dataclasses.replace(
            kept,
            correlation_id=request.correlation_id,
            request_type=request.api_key,
            request_version=request.api_version,
        )
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
        correlation_id=request.correlation_id,
        request_type=request.api_key,
        request_version=request.api_version,
    )
    return context


def _describes(context: RequestContext, channel: Channel, client_id: str) -> bool:
    """True if the sender is the same. Compares by identity, since unchanged values are the same objects."""
    return (
        context.client_id == client_id
        and context.client_software_name is channel.client_software_name
        and context.client_software_version is channel.client_software_version
        and context.principal is channel.principal
    )

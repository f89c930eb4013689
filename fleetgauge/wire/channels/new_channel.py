"""Makes the channels of a listener whose handler answers the requests; those of a gateway are its own."""

import asyncio

from fleetgauge.wire.channels.base_channel import as_protocol
from fleetgauge.wire.channels.secure_channel import SecureChannel
from fleetgauge.wire.channels.tcp_channel import TcpChannel
from fleetgauge.wire.context.accepted import Accepted


def make_channel(accepted: Accepted) -> asyncio.Protocol:
    """Makes a channel whose requests the listener's handler answers."""
    return as_protocol(TcpChannel(accepted) if accepted.handshake is None else SecureChannel(accepted))

"""Requests of admin tools that wait for the thread: one at a time, principals and their connections in turn.

Some requests take the thread a second, and a client may send hundreds of them: it must delay itself alone. Beyond the
bound the connections with the most are closed, of the principal with the most.
"""

from collections import OrderedDict, deque
from typing import NamedTuple

from fleetgauge.wire.context.channel import Channel
from fleetgauge.wire.messages.codec import Request


class Waiting(NamedTuple):
    """One request; `held_bytes` is what it counts for [B]."""

    channel: Channel
    request: Request
    held_bytes: int


class WaitingRequests:
    """The requests that wait; belongs to one loop.

    Args:
        max_bytes: of all of them [B].
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held_bytes = 0
        self._principals: OrderedDict[str, OrderedDict[Channel, deque[Waiting]]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._principals)

    def add(self, waiting: Waiting) -> list[Channel]:
        """Appends a request; returns the connections that are to be closed for it, whose requests are removed."""
        connections = self._principals.setdefault(str(waiting.channel.principal), OrderedDict())
        connections.setdefault(waiting.channel, deque()).append(waiting)
        self._held_bytes += waiting.held_bytes
        closed: list[Channel] = []
        while self._held_bytes > self._max_bytes:
            of_principal = max(self._principals.values(), key=lambda each: sum(map(_held_bytes, each.values())))
            sizes = {channel: _held_bytes(requests) for channel, requests in of_principal.items()}
            for channel in sorted(sizes, key=sizes.__getitem__, reverse=True):
                if self._held_bytes <= self._max_bytes:
                    break
                self.forget(channel)
                closed.append(channel)
        return closed

    def next(self) -> Waiting:
        """Takes the next request.

        Raises:
            KeyError: there is none.
        """
        principal, connections = self._principals.popitem(last=False)
        channel, requests = connections.popitem(last=False)
        waiting = requests.popleft()
        if requests:
            connections[channel] = requests
        if connections:
            self._principals[principal] = connections
        self._held_bytes -= waiting.held_bytes
        return waiting

    def forget(self, channel: Channel) -> None:
        """Removes the requests of a connection that has ended: their answers could not be sent."""
        connections = self._principals.get(str(channel.principal))
        if connections is not None and channel in connections:
            self._held_bytes -= _held_bytes(connections.pop(channel))
            if not connections:
                del self._principals[str(channel.principal)]


def _held_bytes(requests: deque[Waiting]) -> int:
    return sum(each.held_bytes for each in requests)

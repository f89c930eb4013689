"""The bound on what the peers of a listener leave unread of their responses, all together.

One connection holds at most `write_high_water_bytes` and a response; thousands that never read hold gigabytes. What a
transport holds falls when its peer reads, and nobody is told. So nothing is added up: whenever enough was sent that the
bound may be passed, every connection is asked what it holds, and those that hold most are closed while it is too much.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import structlog

from wire.close_reason import CloseReason

if TYPE_CHECKING:
    from wire.listener_context import ListenerContext
    from wire.tcp_channel import TcpChannel

log = structlog.get_logger(__name__)

_LEAST_SHARE: Final = 8
"""An eighth of the bound is sent between two reviews at least, so that they cost next to nothing."""


class UnreadResponses:
    """What the connections of one listener hold of responses that their peers have not read.

    Args:
        max_bytes: the bound [B]. It may be passed by an eighth, and by what one turn of a connection writes.

    Attributes:
        held_bytes: what was held at the latest review, after it [B].
        left_bytes: what may be sent before the next one [B]; below 0 it is due, and no request is handled before it.
    """

    __slots__ = ("_is_coming", "_max_bytes", "held_bytes", "left_bytes")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._is_coming = False
        self.held_bytes = 0
        self.left_bytes = max_bytes

    def review_soon(self, context: "ListenerContext") -> None:
        """Reviews in the loop's next iteration: by then it has handed what was just written to the kernel."""
        if not self._is_coming:
            self._is_coming = True
            context.loop.call_soon(self.review, context)

    def review(self, context: "ListenerContext") -> None:
        """Asks every connection what it holds, and closes those that hold most while that is more than the bound."""
        self._is_coming = False
        held = [(channel.unread_bytes, channel) for channel in context.channels]
        total = sum(size for size, _ in held)
        if total > self._max_bytes:
            held.sort(key=lambda each: each[0], reverse=True)
            total = self._close(context, held, total)
        self.held_bytes = total
        self.left_bytes = max(self._max_bytes - total, self._max_bytes // _LEAST_SHARE)

    def _close(self, context: "ListenerContext", held: Iterable[tuple[int, "TcpChannel"]], total: int) -> int:
        now_ms = context.time.hi_res_clock_ms()
        reason = CloseReason.RESPONSE_BUFFERS_FULL
        for size, channel in held:
            if total <= self._max_bytes:
                break
            count = context.limiter.admit(reason, now_ms)
            if count:
                log.warning(
                    "closed the connections that left most of their responses unread",
                    reason=str(reason),
                    detail=f"{total} bytes are unread over all connections, queued.max.response.bytes is "
                    f"{self._max_bytes}; this one held {size}",
                    listener=context.listener_name,
                    connection_id=channel.connection_id,
                    connections=count,
                )
            channel.abort(reason)
            total -= size
        return total

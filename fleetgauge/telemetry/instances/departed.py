"""Ended and vanished client instances, which are still listed for a limited time."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from fleetgauge.telemetry.instances.client_state import ENDED_SHOWN_MS, VANISHED_SHOWN_MS
from fleetgauge.telemetry.instances.instance import ClientInstance
from fleetgauge.telemetry.instances.inventory import key_among

_Kept = OrderedDict[Hashable, ClientInstance]


class DepartedClients:
    """A bounded register of instances removed from the cache. Not thread-safe. Times are monotonic [ms].

    An instance is added when the cache removes it for any reason. It is removed when its sender returns with the same
    id, after a day (an hour if it ended), or when the register is full. Ended instances are removed first, so that
    short-lived clients with a proper close do not displace vanished ones. Instances that never pushed are not kept: a
    sender can create an id with a single request.

    Args:
        max_size: maximum number of instances.
    """

    def __init__(self, max_size: int) -> None:
        self._max_size: Final = max_size
        self._vanished: _Kept = OrderedDict()
        self._ended: _Kept = OrderedDict()

    @property
    def vanished(self) -> int:
        """Number of instances without a terminating push."""
        return len(self._vanished)

    @property
    def ended(self) -> int:
        """Number of instances with an accepted terminating push."""
        return len(self._ended)

    def add(self, instance: ClientInstance, *, lost_connection: bool) -> None:
        """Adds an instance; ignores one that never pushed, or has no subscribed metrics.

        Args:
            instance: removed from the cache.
            lost_connection: True if it was removed because its last connection ended.
        """
        instance.lost_connection = lost_connection
        instance.pace = None
        if instance.gate.is_terminated:
            kept = self._ended
        elif (instance.pushes or instance.pushed_before) and instance.subscription.metrics:
            kept = self._vanished
        else:
            return
        self.returned(instance)
        if len(self._vanished) + len(self._ended) >= self._max_size:
            (self._ended or self._vanished).popitem(last=False)
        kept[_key(instance, kept)] = instance

    def returned(self, instance: ClientInstance) -> None:
        """Removes the instance with this id and sender: the client is in the cache again, and has pushed."""
        for kept in (self._vanished, self._ended):
            if kept and kept.pop(_key(instance, kept), None) is not None:
                instance.pushed_before = True

    def expire(self, now_ms: int) -> None:
        """Removes instances that were last seen before their retention limit."""
        for kept, shown_ms in ((self._vanished, VANISHED_SHOWN_MS), (self._ended, ENDED_SHOWN_MS)):
            while kept and next(iter(kept.values())).seen_ms + shown_ms <= now_ms:
                kept.popitem(last=False)

    def snapshot(self) -> list[ClientInstance]:
        """All instances as of now."""
        return [*self._vanished.values(), *self._ended.values()]

    def holds(self, instance: ClientInstance) -> bool:
        """True if the register still has this object."""
        return any(kept.get(_key(instance, kept)) is instance for kept in (self._vanished, self._ended))


def _key(instance: ClientInstance, kept: _Kept) -> Hashable:
    return key_among((instance.instance_id.bytes, instance.sender), instance, kept)

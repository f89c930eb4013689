"""Client instances that the node no longer serves: ended or vanished, and still listed for a while."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from telemetry.instances.client_state import ENDED_SHOWN_MS, VANISHED_SHOWN_MS
from telemetry.instances.instance import ClientInstance
from telemetry.instances.inventory import key_among

_Kept = OrderedDict[Hashable, ClientInstance]


class DepartedClients:
    """A bounded register of forgotten instances. Not for several threads. Times are monotonic [ms].

    An instance enters when the cache forgets it, whatever the reason, and leaves when its sender comes back under its
    id, after a day (an hour if it ended), or when there is no room. Ended ones make room first: short-lived clients
    that close properly do not displace the vanished. Nor do instances that never pushed, which are not kept: an id
    costs its sender no more than one request.

    Args:
        max_size: instances that are kept.
    """

    __slots__ = ("_ended", "_max_size", "_vanished")

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
        """Number of instances whose terminating push was accepted."""
        return len(self._ended)

    def add(self, instance: ClientInstance, *, lost_connection: bool) -> None:
        """Takes a forgotten instance; one that never pushed, or is not asked for metrics, is left out.

        Args:
            instance: no longer in the cache.
            lost_connection: it was forgotten because its last connection ended.
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
        """Removes the instance of this id and sender: the client is known to the cache again, and has pushed."""
        for kept in (self._vanished, self._ended):
            if kept and kept.pop(_key(instance, kept), None) is not None:
                instance.pushed_before = True

    def expire(self, now_ms: int) -> None:
        """Removes what was last seen long enough ago."""
        for kept, shown_ms in ((self._vanished, VANISHED_SHOWN_MS), (self._ended, ENDED_SHOWN_MS)):
            while kept and next(iter(kept.values())).seen_ms + shown_ms <= now_ms:
                kept.popitem(last=False)

    def snapshot(self) -> list[ClientInstance]:
        """All instances as of now."""
        return [*self._vanished.values(), *self._ended.values()]

    def holds(self, instance: ClientInstance) -> bool:
        """True if this very instance is still here."""
        return any(kept.get(_key(instance, kept)) is instance for kept in (self._vanished, self._ended))


def _key(instance: ClientInstance, kept: _Kept) -> Hashable:
    return key_among((instance.instance_id.bytes, instance.sender), instance, kept)

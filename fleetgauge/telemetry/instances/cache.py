"""Cache of this node's client instances with LRU eviction, expiry, and removal when connections end."""

import itertools
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from fleetgauge.base.library_log import get_logger
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.telemetry.instances.expiry_queue import ExpiryQueue
from fleetgauge.telemetry.instances.instance import ClientInstance, InstanceKey, other_sender
from fleetgauge.telemetry.instances.register import InstanceRegister
from fleetgauge.telemetry.plugin.api import RequestContext

log = get_logger(__name__)

MAX_RECALLED: Final = 16
"""Maximum number of a connection's instances that are searched for a client without an id."""

EVICTION_WARNING_INTERVAL_MS: Final = 300_000


class InstanceCache:
    """A bounded map of client instances. Not thread-safe. Times are monotonic [ms].

    Attributes:
        evicted: number of instances removed because the cache was full.
        expired: number of instances removed because they sent no request.
        clashes: number of instances created under an id that another sender used.
        register: the instances by index, for iteration in slices.
    """

    def __init__(self, max_size: int, on_forget: Callable[[ClientInstance], None] = lambda _: None) -> None:
        """Keeps at most `max_size` instances; `on_forget` is called for each removed one."""
        self._max_size = max_size
        # The least recently used first. A single mapping; cachetools' LRUCache keeps sizes and order in two more
        # (docs/decisions/017-own-instance-cache.md).
        self._instances: OrderedDict[InstanceKey, ClientInstance] = OrderedDict()
        # Of ids that several senders used: instances under the id. `_duplicates` is the sum of those beyond the first.
        self._senders: dict[bytes, int] = {}
        self._duplicates = 0
        self._on_forget = on_forget
        self.register = InstanceRegister()
        # Most connections have one client; only the others need a mapping.
        self._by_connection: dict[str, ClientInstance | dict[InstanceKey, ClientInstance]] = {}
        self._queue = ExpiryQueue()
        self._limiter = LogLimiter(EVICTION_WARNING_INTERVAL_MS)
        self.evicted = 0
        self.expired = 0
        self.clashes = 0

    def __len__(self) -> int:
        return len(self._instances)

    @property
    def ids(self) -> int:
        """Number of different instance ids, each counted once however many senders use it."""
        return len(self._instances) - self._duplicates

    def get(self, instance_id: bytes, context: RequestContext) -> ClientInstance | None:
        """Returns the instance with that id and sender."""
        instance = self._instances.get(instance_id)
        if instance is None or (instance.context is not context and not instance.is_of(context)):
            if not self._senders:
                return None
            instance = self._instances.get(other_sender(instance_id, context))
            if instance is None:
                return None
        return instance

    def contains_id(self, instance_id: bytes) -> bool:
        """True if the id is in use."""
        return instance_id in self._instances

    def add(self, instance: ClientInstance, context: RequestContext, now_ms: int) -> None:
        """Adds a new instance; evicts the least recently used one if the cache is full."""
        if len(self._instances) >= self._max_size:
            self._evict(now_ms)
        instance_id = instance.instance_id.bytes
        first_holds_it = instance_id in self._instances
        if first_holds_it:
            instance.key = other_sender(instance_id, context)
            self.clashes += 1
        senders = self._senders.get(instance_id, int(first_holds_it))
        if senders:
            self._senders[instance_id] = senders + 1
            self._duplicates += 1
        self._instances[instance.key] = instance
        self.register.add(instance)

    def touch(self, instance: ClientInstance, now_ms: int) -> None:
        """Records a request of an instance: it becomes the most recently used, and its deadline moves."""
        self._instances.move_to_end(instance.key)
        instance.deadline_ms = deadline_ms = now_ms + instance.expiry_ms
        if deadline_ms < instance.queued_second * 1_000:
            self._queue.put(instance, len(self._instances))

    def on_connection(self, connection_id: str) -> tuple[ClientInstance, ...]:
        """Latest instances of a connection, at most `MAX_RECALLED`, the newest first.

        A client has one or two; searching all instances that one connection created would make each Get slower than the
        one before it.
        """
        seen = self._by_connection.get(connection_id, {})
        return tuple(itertools.islice(reversed(seen.values()), MAX_RECALLED)) if isinstance(seen, dict) else (seen,)

    def disconnect(self, connection_id: str) -> int:
        """Removes a closed connection and the instances without another one; returns the number of these instances."""
        removed = 0
        seen = self._by_connection.pop(connection_id, {})
        for instance in seen.values() if isinstance(seen, dict) else (seen,):
            if not instance.gate.leave(connection_id):
                self._remove(instance)
                removed += 1
            elif instance.connection_id == connection_id:
                instance.connection_id = ""  # so that the next request records its address
        return removed

    def expire(self, now_ms: int) -> int:
        """Removes the instances past their deadline; returns their number."""
        removed = 0
        for instance in self._queue.due(now_ms, self.__len__):
            self._remove(instance)
            removed += 1
        self.expired += removed
        return removed

    def clear(self) -> None:
        """Removes all instances; keeps the counters."""
        for instance in self.register.between(0, len(self.register)):
            self._on_forget(instance)
        self.register.clear()
        self._instances.clear()
        self._senders.clear()
        self._duplicates = 0
        self._by_connection.clear()
        self._queue.clear()

    def move(self, instance: ClientInstance, context: RequestContext, now_ms: int) -> None:
        """Records the context of the instance's latest request, possibly on another connection."""
        instance.comes_as(context)
        connection_id = context.connection_id
        if instance.connection_id == connection_id:
            return
        instance.connection_id = connection_id
        gate = instance.gate
        replaced = gate.enter(connection_id, now_ms - instance.expiry_ms)
        if replaced is not None:
            self._detach(instance, replaced)
        if gate.times.connection_id != connection_id:
            return  # the gate remembers no further connections
        seen = self._by_connection.setdefault(connection_id, instance)
        if isinstance(seen, dict):
            seen[instance.key] = instance
        elif seen is not instance:
            self._by_connection[connection_id] = {seen.key: seen, instance.key: instance}

    def _detach(self, instance: ClientInstance, connection_id: str) -> None:
        seen = self._by_connection.get(connection_id)
        if isinstance(seen, dict):
            seen.pop(instance.key, None)
        if not seen or seen is instance:
            self._by_connection.pop(connection_id, None)

    def _evict(self, now_ms: int) -> None:
        _, instance = self._instances.popitem(last=False)
        self._forget(instance)
        self.evicted += 1
        if self._limiter.admit("eviction", now_ms):
            log.warning(
                "telemetry.instance_cache_full",
                message="raise telemetry.client.instances.max, or spread the clients over more nodes",
                instances=self._max_size,
                evicted=self.evicted,
            )

    def _remove(self, instance: ClientInstance) -> None:
        del self._instances[instance.key]
        self._forget(instance)

    def _forget(self, instance: ClientInstance) -> None:
        """Removes an instance from all other indexes."""
        self._on_forget(instance)
        self.register.remove(instance)
        for connection_id in instance.gate.connections:
            self._detach(instance, connection_id)
        instance.connection_id = ""  # so that no connection matches it any more
        instance_id = instance.instance_id.bytes
        senders = self._senders.pop(instance_id, 1)
        if senders > 1:
            self._senders[instance_id] = senders - 1
            self._duplicates -= 1

"""The state of a node while it runs: reads and changes the records of a store, and puts them in force.

The state is read and written in a thread, one call at a time: a disk or broker that hangs must not keep clients
waiting. Other workers of the node, and other nodes with the same topic, change the same state; each looks for that
twice a second.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

import structlog

from fleetgauge.base.clock import Time
from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.node.off_loop import OffLoop
from fleetgauge.node.state.store import RecordKind, Records, State
from fleetgauge.node.tasks import end_task

log = structlog.get_logger(__name__)

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

_CAUSES: Final = "check the disk of the data directory, and with state.store=kafka the brokers"


class Store(Protocol):
    """Keeps the records: `node.state.store.StateStore` or `node.state.topic.StateTopic`.

    Attributes:
        problem: why changes of others are not read now, or None.
    """

    problem: str | None

    def read(self) -> State:
        """Returns the state.

        Raises:
            PushLogError: it cannot be read now.
        """

    def read_if_changed(self) -> State | None:
        """Returns the state if others may have changed it since the last one that was returned, else None.

        Raises:
            PushLogError: as `read`.
        """

    def change(self, alter: Callable[[State], State]) -> State:
        """Replaces the state by what `alter`, which may be called more than once, makes of it; durable on return.

        Returns:
            The new state.

        Raises:
            PushLogError: it cannot be written; nothing is changed.
            UncertainChangeError: it is not known whether it was changed.
            Exception: what `alter` raises; nothing is changed.
        """

    def status(self) -> dict[str, Any]:
        """The part of `fleetgauge status`; empty if there is none."""

    def close(self) -> None:
        """Closes what was opened."""


class StateKind(Protocol):
    """Applies one kind of records.

    Attributes:
        kind: the records.
    """

    kind: RecordKind

    def usable(self, records: Records) -> Records:
        """Returns the records that this release accepts, and logs the others: a later one may have written them.

        Called in a thread; expensive preparations of `apply` belong here.
        """

    def apply(self, records: Records) -> None:
        """Puts usable records in force, in place of the earlier ones. Called on the loop; never raises."""


class ParsedRecords(Generic[K, V]):
    """Parses the records of one kind: in the thread that reads them, so that the loop need not when it applies them.

    Those that have not changed since the last time are not parsed again.

    Args:
        parse: makes a key and its value of a record's name and values; raises `FleetgaugeError` or `ValueError` for one
            that this release does not accept.
    """

    def __init__(self, parse: Callable[[str, Mapping[str, str]], tuple[K, V]]) -> None:
        self._parse = parse
        self._parsed: dict[str, tuple[Mapping[str, str], K, V]] = {}
        self._latest: tuple[Records, dict[K, V]] = ({}, {})

    def usable(self, records: Records) -> Records:
        """Returns the records that this release accepts."""
        parsed: dict[str, tuple[Mapping[str, str], K, V]] = {}
        for name, each in records.items():
            known = self._parsed.get(name)
            if known is None or known[0] != each:
                try:
                    known = (each, *self._parse(name, each))
                except (FleetgaugeError, ValueError):
                    continue
            parsed[name] = known
        usable = {name: each for name, (each, _, _) in parsed.items()}
        self._parsed = parsed
        self._latest = (usable, {key: value for _, key, value in parsed.values()})
        return usable

    def accepted(self, records: Records, what: str) -> Records:
        """Records that `usable` accepts; logs the others, which `what` names, for example `user`."""
        usable = self.usable(records)
        for name in records.keys() - usable.keys():
            log.error("state.value_refused", **{what: name}, consequence="it is not applied")
        return usable

    def values(self, usable: Records) -> Mapping[K, V]:
        """Returns the values of records that `usable` returned; at no cost for those that it returned last."""
        records, values = self._latest
        return values if records is usable else dict(self._parse(name, each) for name, each in usable.items())

    def change(self, transaction: "Transaction", kind: RecordKind, alter: Callable[[Mapping[K, V]], Records]) -> None:
        """Replaces the usable records of a kind durably; those that this release does not accept are kept.

        Raises:
            PushLogError: the state cannot be written now; nothing is changed.
            Exception: what `alter` raises; nothing is changed.
        """

        def altered(records: Records) -> Records:
            usable = self.usable(records)
            kept = {name: each for name, each in records.items() if name not in usable}
            return {**kept, **alter(self.values(usable))}

        transaction.change(kind, altered)


class NodeState:
    """The state. To be used on one loop only.

    Args:
        store: keeps the records.
        time: the clocks.

    Raises:
        PushLogError: the state cannot be read.
    """

    review_s: float = 0.5
    """Time between two looks for changes of others [s]."""

    within_s: float = 10.0
    """Time limit of one request of a tool [s]; beyond it, its connection is closed."""

    def __init__(self, store: Store, time: Time) -> None:
        self._store = store
        self._time = time
        self._off_loop = OffLoop("reading or changing the node's state", self.within_s, _CAUSES)
        self._turn = asyncio.Lock()
        self._review: asyncio.Task[None] | None = None
        self._log = LogLimiter()
        self._kinds: dict[RecordKind, StateKind] = {}
        self._in_force: dict[RecordKind, Records] = {}
        # One for all calls: the store returns a change of others once, and a call may read it after its time is up. The
        # next call puts that in force.
        self._transaction = Transaction(store, self._kinds, store.read())

    def add(self, kind: StateKind) -> None:
        """Puts the stored records of a kind in force, and all later changes of them."""
        usable = kind.usable(self._transaction.stored.get(kind.kind, {}))
        self._kinds[kind.kind] = kind
        self._in_force[kind.kind] = self._transaction.in_force[kind.kind] = usable
        kind.apply(usable)

    @property
    def problem(self) -> str | None:
        """Why changes of others are not seen now, or None."""
        return self._store.problem

    def status(self) -> dict[str, Any]:
        """The part of `fleetgauge status`; empty if there is none."""
        return self._store.status()

    def start(self) -> None:
        """Begins to look for changes by others."""
        self._review = asyncio.create_task(self._keep_reviewing())

    async def stop(self) -> None:
        """Ends what `start` began."""
        await end_task(self._review)
        if not self._off_loop.is_busy:  # a client that is closed while it is used may crash the process
            self._store.close()

    async def run(self, work: Callable[["Transaction"], T]) -> T:
        """Runs `work` in a thread; what it changes is in force on return.

        Raises:
            FleetgaugeError: it does not end in time; its changes may or may not be made. Also whatever `work` raises.
        """
        async with self._turn:
            try:
                return await self._off_loop.run(lambda: work(self._transaction))
            finally:
                self._put_in_force()

    def _put_in_force(self) -> None:
        former, self._in_force = self._in_force, dict(self._transaction.in_force)
        for name, kind in self._kinds.items():
            if self._in_force[name] is not former[name]:
                kind.apply(self._in_force[name])

    async def _keep_reviewing(self) -> None:
        while True:
            await asyncio.sleep(self.review_s)
            try:
                await self.run(lambda transaction: transaction.refresh())
            except FleetgaugeError as error:
                if self._log.admit("state.unreadable", self._time.hi_res_clock_ms()):
                    log.error(
                        "state.unreadable",
                        message="changes by tools elsewhere are not seen",
                        error=str(error),
                    )
            except Exception:  # must not end the reviews
                if self._log.admit("state.review_failed", self._time.hi_res_clock_ms()):
                    log.exception("state.review_failed", message="changes by tools elsewhere may not be in force")


class Transaction:
    """Access to the state within `NodeState.run`, in its thread.

    Attributes:
        stored: the state as it was read or written last.
        in_force: the usable records of it, by kind.
    """

    def __init__(self, store: Store, kinds: dict[RecordKind, StateKind], stored: State) -> None:
        self._store = store
        self._kinds = kinds
        self.stored = stored
        self.in_force: dict[RecordKind, Records] = {}

    def refresh(self) -> None:
        """Reads the state if another worker has changed it.

        Raises:
            PushLogError: it cannot be read now.
        """
        stored = self._store.read_if_changed()
        if stored is not None:
            self._take(stored)

    def read(self, kind: RecordKind) -> Records:
        """Returns the usable records of a kind as of now, with the changes of all workers.

        Raises:
            PushLogError: the state cannot be read now.
        """
        self.refresh()
        return self.in_force[kind]

    def change(self, kind: RecordKind, alter: Callable[[Records], Records]) -> None:
        """Replaces all stored records of a kind by what `alter` makes of them; on return the change is durable.

        `alter` may be called more than once; its last result counts.

        Raises:
            PushLogError: the state cannot be written now; nothing is changed.
            UncertainChangeError: it is not known whether it was changed.
            Exception: what `alter` raises; nothing is changed.
        """
        self._take(self._store.change(lambda stored: {**stored, kind: alter(stored.get(kind, {}))}))

    def _take(self, stored: State) -> None:
        for name, kind in self._kinds.items():
            records = stored.get(name, {})
            if records != self.stored.get(name, {}):
                self.in_force[name] = kind.usable(records)
        self.stored = stored

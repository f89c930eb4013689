"""The state on a compacted Kafka topic that several nodes share (`state.store=kafka`).

The topic has one partition. A record is one name of one kind, whole: its key is `[kind, name]`, its value the keys and
values, or null where the name was removed. Every node reads the topic from its beginning and applies it in order.

A change is one transaction, under one `transactional.id` for all nodes: a node that begins to write fences the producer
that wrote before, reads to the end, decides, and commits. Of two nodes that change at the same time one is fenced:
nothing of its transaction is ever read, and it decides again on top of the other's change. That is a compare-and-set of
the whole state, and compaction never keeps a record that was not accepted.
"""

import json
import random
import time
import uuid
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import structlog

from fleetgauge.base.clock import Time
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.node.state.store import Difference, State, StateStore, UncertainChangeError, differences, state_of
from fleetgauge.push_log.kafka_topic.clients import make_admin, make_state_consumer, make_state_producer, text_of
from fleetgauge.push_log.kafka_topic.offsets import TopicOffsets
from fleetgauge.push_log.kafka_topic.reader import headers_of
from fleetgauge.push_log.kafka_topic.record_codec import MalformedRecordError
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.kafka_topic.topic import WrongTopicError, check_compacted, ensure_topic
from fleetgauge.push_log.log import PushLogError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

log = structlog.get_logger(__name__)

_READ_S: Final = 2.0
_CHANGE_S: Final = 8.0
"""Time limit of one change [s]; less than `node.state.node_state` waits."""
_POLL_S: Final = 0.1
_START_AGAIN_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 0.05
_CHANGES_REMEMBERED: Final = 1_000
_CHANGE_HEADER: Final = "change"
_COPIED: Final = "topic"
"""Kind of the record in a copy with the offset up to which it holds the topic."""


class _TryAgainError(Exception):
    """A transaction failed, and another may succeed: another node has begun to write, or a broker had a problem."""


class _RefusedError(PushLogError):
    """The brokers refused a change; nothing of it is written."""


class StateTopic:
    """The topic; a `node.state.node_state.Store`. Not for two threads at a time.

    Without the topic the node goes on with the state that it has read, after a restart with its copy, and refuses
    changes.

    Args:
        settings: the topic and its cluster.
        copy: keeps what was read, for a start while the topic is unreachable.
        clock: the clocks.
        former: the state of this node before it had a topic; it is written to an empty one.

    Attributes:
        problem: why the topic cannot be read now, or None.

    Raises:
        PushLogError: confluent-kafka is missing, or rejects a setting.
    """

    start_within_s: float = 60.0
    """Time that a start without a copy of the state waits for the topic [s]."""

    def __init__(self, settings: KafkaTopicSettings, copy: StateStore, clock: Time, former: State) -> None:
        self._settings = settings
        self._place = f"topic {settings.topic} at {settings.bootstrap_servers}"
        self._copy = copy
        self._clock = clock
        self._former = former
        self._admin = make_admin(settings)
        self._offsets = TopicOffsets(settings, is_committed=True)
        self._log = LogLimiter()
        self._tail: _Tail | None = None
        self._writer: _Writer | None = None
        self._state: State = {}
        self._offset = 0
        self._returned: State | None = None
        self.problem: str | None = None

    def start(self) -> None:
        """Reads the topic to its end; creates a missing one. Blocks.

        Raises:
            PushLogError: it cannot be read, and there is no copy; or it has several partitions, or is not compacted.
        """
        copied, read_before = of_copy(self._copy.read())
        deadline = time.monotonic() + self.start_within_s
        while True:
            try:
                ensure_topic(self._admin, self._settings)
                self._catch_up(deadline)
            except WrongTopicError:
                raise
            except PushLogError as error:
                if read_before is not None:
                    self._state, self._offset = copied, read_before
                    self._lose(error)
                    return
                if time.monotonic() > deadline:
                    raise PushLogError(f"no state to start with: {error}, and this node has no copy of it") from error
                time.sleep(_START_AGAIN_S)
            else:
                break
        if read_before is not None and self._offset < read_before:
            log.error("state.topic_shorter", message="it was deleted or truncated; what it holds now is in force")
        if self._former:
            self._import()
        self._keep(is_newest=True)

    def status(self) -> dict[str, Any]:
        """The part of `fleetgauge status`."""
        return {"topic": self._settings.topic, "topic_lost": int(self.problem is not None), "problem": self.problem}

    def read(self) -> State:
        """Returns the state as it was read last."""
        self._returned = self._state
        return self._state

    def read_if_changed(self) -> State | None:
        """Reads to the topic's end, if it can be reached; returns the state if it is not the one returned last."""
        try:
            self._catch_up(time.monotonic() + _READ_S)
        except PushLogError as error:
            self._lose(error)
        return None if self._state is self._returned else self.read()

    def change(self, alter: Callable[[State], State]) -> State:
        """Replaces the state by what `alter` makes of it, in one transaction; on return all in-sync replicas have it.

        `alter` is called again if another node has changed the state meanwhile.

        Returns:
            The new state.

        Raises:
            PushLogError: the topic cannot be reached, or refuses; nothing is changed.
            UncertainChangeError: the topic was lost meanwhile.
            Exception: what `alter` raises; nothing is changed.
        """
        self._returned = None  # if the caller is gone by the end, the next `read_if_changed` returns the new state
        change, deadline, may_be_written = uuid.uuid4().bytes, time.monotonic() + _CHANGE_S, False
        while True:
            try:
                tail, writer = self._begin(deadline)
                if change in tail.changes:  # only the answer to an earlier attempt was lost
                    return self._state
                may_be_written = False  # an earlier attempt was aborted when the writer was made
                records = list(differences(self._state, alter(self._state)))
                if not records:
                    return self._state
                may_be_written = True
                writer.write(records, change, deadline)
                self._catch_up(deadline, change)
                return self._state
            except _TryAgainError as error:
                problem = str(error)
            except _RefusedError:
                self._writer = None
                raise
            except PushLogError as error:
                self._lose(error)
                if not may_be_written:
                    raise
                problem = str(error)
            self._writer = None
            if time.monotonic() > deadline:
                raise UncertainChangeError(f"it is not known whether the state was changed: {problem}")
            time.sleep(random.uniform(0, _LONGEST_PAUSE_S))  # noqa: S311  two nodes must not go on in step

    def close(self) -> None:
        """Closes the clients."""
        self._writer = None
        if self._tail is not None:
            self._tail.close()
            self._tail = None

    def _begin(self, deadline: float) -> "tuple[_Tail, _Writer]":
        """The whole state is read, and no other node has written since."""
        tail = self._catch_up(deadline)  # fails soon while no broker answers
        if self._writer is None:
            self._writer = _Writer(self._settings, deadline)
            tail = self._catch_up(deadline)
        return tail, self._writer

    def _catch_up(self, deadline: float, change: bytes | None = None) -> "_Tail":
        """Reads to the topic's end, and until `change` is read: its transaction ends shortly after its commit."""
        while True:
            end = self._offsets.ends([0])[0]
            if end < self._offset:
                raise PushLogError(
                    f"{self._place} ends at {end}, and {self._offset} records were read before: it was deleted or "
                    "truncated; to go on with what it holds now, restart the nodes"
                )
            if self._tail is None:
                check_compacted(self._admin, self._settings)
                self._tail = _Tail(self._settings)
            self._tail.read_to(end, deadline)
            if change is None or change in self._tail.changes:
                break
            if time.monotonic() > deadline:
                raise PushLogError(f"{self._place} does not return what was written to it")
        self._offset = end
        if self._tail.has_news:
            self._state = self._tail.state()
            self._keep()
        if self.problem is not None:
            self.problem = None
            log.info("state.topic_reached", topic=self._settings.topic)
        return self._tail

    def _lose(self, error: PushLogError) -> None:
        self.close()
        self.problem = str(error)
        if self._log.admit("lost", self._clock.hi_res_clock_ms()):
            log.error(
                "state.topic_lost",
                message="the state that was read last stays in force, and changes by tools are refused",
                error=self.problem,
            )

    def _import(self) -> None:
        was_empty = not self._offset
        if was_empty:
            self.change(lambda stored: stored or self._former)  # another node may be faster
        if self._state != self._former:
            log.warning("state.db_not_read", message="the state is that of the topic; remove state.db")
        elif was_empty:
            log.info("state.imported", message="state.db was written to the empty topic", topic=self._settings.topic)

    def _keep(self, *, is_newest: bool = False) -> None:
        """Writes the copy, unless another worker of the node has written a newer one."""
        mine = {**self._state, _COPIED: {"": {"offset": str(self._offset)}}}

        def newer(kept: State) -> State:
            return kept if not is_newest and _offset_of(kept.get(_COPIED, {})) > self._offset else mine

        try:
            self._copy.change(newer)
        except PushLogError as error:
            if self._log.admit("copy", self._clock.hi_res_clock_ms()):
                log.error("state.copy_not_written", error=str(error))


def of_copy(copy: State) -> tuple[State, int | None]:
    """The state in what a node's copy of the topic holds, and the offset up to which it was read; None: never."""
    state = dict(copy)
    offset = state.pop(_COPIED, None)
    return state, None if offset is None else _offset_of(offset)


class _Tail:
    """Content of the topic, read from its beginning.

    Attributes:
        changes: ids of the changes that were read last.
        has_news: records were read since the last `state`.
    """

    def __init__(self, settings: KafkaTopicSettings) -> None:
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        self._place = f"topic {settings.topic} at {settings.bootstrap_servers}"
        self._consumer = make_state_consumer(settings)
        self._consumer.assign([TopicPartition(settings.topic, 0, OFFSET_BEGINNING)])
        self._records: dict[tuple[str, str], dict[str, str]] = {}
        self._offset = 0
        self.changes: deque[bytes] = deque(maxlen=_CHANGES_REMEMBERED)
        self.has_news = True

    def close(self) -> None:
        """Closes the consumer."""
        self._consumer.close()

    def state(self) -> State:
        """The state as read."""
        self.has_news = False
        return state_of((*place, *each) for place, values in self._records.items() for each in values.items())

    def read_to(self, end: int, deadline: float) -> None:
        """Reads everything before the offset `end`.

        Raises:
            PushLogError: it is not there by `deadline` [s, monotonic], or the brokers report an error.
        """
        while self._offset < end:
            message = self._consumer.poll(_POLL_S)
            if message is not None:
                self._take(message)
            elif time.monotonic() > deadline:
                raise PushLogError(f"{self._place} ends at {end}, and was delivered up to {self._offset} only")

    def _take(self, message: "Message") -> None:
        from confluent_kafka import KafkaError

        error, offset = message.error(), message.offset() or 0
        if error is None:
            self._offset = offset + 1
            self._apply(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            self._offset = offset
        elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # of a group that is not used
            raise PushLogError(f"cannot read {self._place}: {text_of(error)}")

    def _apply(self, message: "Message") -> None:
        try:
            kind, name = (str(each) for each in json.loads(message.key() or b""))
            content = json.loads(message.value() or b"null")
            values = None if content is None else {str(key): str(value) for key, value in content.items()}
            json.dumps([kind, name, values], ensure_ascii=False).encode()  # half a character cannot be kept
            headers = headers_of(message) or ()
        except (MalformedRecordError, ValueError, TypeError, AttributeError, RecursionError) as error:
            log.warning("state.record_ignored", offset=message.offset(), error=str(error))
            return
        self.has_news = True
        if values:
            self._records[kind, name] = values
        else:
            self._records.pop((kind, name), None)
        self.changes.extend(value for key, value in headers if key == _CHANGE_HEADER and isinstance(value, bytes))


class _Writer:
    """Writes transactions, until another node does.

    Raises:
        PushLogError: the brokers do not answer by `deadline` [s, monotonic], or refuse.
    """

    def __init__(self, settings: KafkaTopicSettings, deadline: float) -> None:
        from confluent_kafka import KafkaException

        self._settings = settings
        self._producer = make_state_producer(settings)
        try:
            self._producer.init_transactions(_left_s(deadline))
        except KafkaException as error:
            raise PushLogError(self._text(error.args[0])) from error

    def write(self, records: "list[Difference]", change: bytes, deadline: float) -> None:
        """Writes and commits the records of one change.

        Raises:
            _TryAgainError: another node has begun to write, or a broker failed; the outcome is not known.
            _RefusedError: the brokers refuse; nothing is written.
            PushLogError: the outcome is not known.
        """
        from confluent_kafka import KafkaException

        try:
            self._producer.begin_transaction()
            for kind, name, values in records:
                self._producer.produce(
                    self._settings.topic,
                    None if values is None else json.dumps(values).encode(),
                    json.dumps([kind, name]).encode(),
                    partition=0,
                    headers=[(_CHANGE_HEADER, change)],
                )
            self._producer.commit_transaction(_left_s(deadline))
        except KafkaException as error:
            raise self._error(error.args[0]) from error

    def _error(self, error: "KafkaError") -> Exception:
        from confluent_kafka import KafkaError, KafkaException

        fenced = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
        if error.code() in fenced:
            return _TryAgainError("other nodes change it all the time")
        # The coordinator also answers a commit with UNKNOWN_SERVER_ERROR where another node fences this one meanwhile.
        if error.code() == KafkaError.UNKNOWN:
            return _TryAgainError(self._text(error))
        if error.txn_requires_abort():
            with suppress(KafkaException):
                self._producer.abort_transaction(_READ_S)
            return _RefusedError(self._text(error))
        return PushLogError(self._text(error))

    def _text(self, error: "KafkaError") -> str:
        return f"cannot write to topic {self._settings.topic} at {self._settings.bootstrap_servers}: {text_of(error)}"


def _offset_of(copied: Any) -> int:
    return int(copied.get("", {}).get("offset", 0))


def _left_s(deadline: float) -> float:
    return max(deadline - time.monotonic(), _POLL_S)

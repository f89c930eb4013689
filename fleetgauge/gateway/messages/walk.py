"""Walks over a body while its bytes pass, and keeps the values that statistics need. Memory does not depend on the
body's length.

A body that does not follow its layout ends the walk and is passed all the same: the peer judges it.
"""

import struct
from collections.abc import Callable, Generator
from typing import Final, NamedTuple

from fleetgauge.base.varint import scan_varint
from fleetgauge.gateway.messages.layout import Op, Step

MAX_TEXT_BYTES: Final = 32_767
"""Longest string that is kept [B]; Kafka's strings are no longer."""
MAX_STEPS: Final = 20_000
"""Most steps of a walk for statistics: a body with many thousands of partitions is not read to its end."""
MAX_BATCHES: Final = 1_000
"""Batch headers read of one partition; the rest of its records is passed over."""
MAX_TOPICS: Final = 1_000
"""Topics kept of one body."""
MAX_TOPIC_CHARACTERS: Final = 249
"""Longest name of a topic that is kept: Kafka's limit."""

COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

_MAX_VARINT_BYTES: Final = 5
_MAX_INT32: Final = 2**31 - 1
_INT16, _INT32, _PAIR = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">ii")
_LENGTH_AND_MAGIC: Final = struct.Struct(">8xi4xb")
_BATCH_HEADER_BYTES: Final = 61
_BATCH_OVERHEAD_BYTES: Final = 12
"""Bytes of offset and length, which the length does not count."""
_ATTRIBUTES: Final = struct.Struct(">21xh")
_RECORDS_COUNT: Final = struct.Struct(">57xi")
_OLD_MESSAGE_BYTES: Final = 18
"""Bytes of a message of formats 0 and 1 up to its attributes."""

# A look-up in an enumeration takes longer than the steps themselves.
_ADDRESS: Final = Op.ADDRESS
_ADDRESSES_END: Final = Op.ADDRESSES_END
_ARRAY: Final = Op.ARRAY
_ENDPOINTS: Final = Op.ENDPOINTS
_LEADER: Final = Op.LEADER
_ERROR: Final = Op.ERROR
_NUMBER: Final = Op.NUMBER
_OPTIONAL: Final = Op.OPTIONAL
_PARTITIONS: Final = Op.PARTITIONS
_RECORDS: Final = Op.RECORDS
_SIZED: Final = Op.SIZED
_SKIP: Final = Op.SKIP
_TAGS: Final = Op.TAGS
_TEXT: Final = Op.TEXT
_THROTTLE_TIME: Final = Op.THROTTLE_TIME
_TOPIC_ID: Final = Op.TOPIC_ID
Steps = Generator[None, None, None]


class MalformedError(Exception):
    """The bytes do not follow the layout; the text says where. Not raised outside of this module."""


class Topic:
    """Values of one topic in a body.

    Attributes:
        name: as the body has it; empty if it has the id alone.
        error: of a Metadata response, the topic's own error code.
        partitions: number of partitions that a Metadata response lists.
        leaders: their leaders by partition, -1 for none; where they are read.
        record_bytes: size of its records [B].
    """

    __slots__ = ("error", "leaders", "name", "partitions", "record_bytes")

    def __init__(self, name: str = "", error: int = 0) -> None:
        self.name = name
        self.error = error
        self.partitions = 0
        self.leaders: dict[int, int] = {}
        self.record_bytes = 0


class Address(NamedTuple):
    """The address of a broker in a body.

    Attributes:
        start, end: offsets of the node id, and of what follows the port [B].
        node_id, host, port: as the broker wrote them.
    """

    start: int
    end: int
    node_id: int
    host: str
    port: int


class Walk:
    """One walk over one body.

    Args:
        steps: of the body's layout.
        read_batches: True to read the headers of record batches; else records are passed over as a whole.
        read_leaders: True to read the leaders of all partitions, however many.

    Attributes:
        values: fields that were kept, by name.
        errors: number of error codes other than 0, by code.
        topics: by name, or by id in 32 hexadecimal digits.
        batches, records, record_bytes: counts of record batches, of their records, and size of all records [B].
        compressions: number of batches by codec, in the order of `COMPRESSIONS`.
        throttle_time_at: offset of the throttle time in the body [B]; None if it was not met.
        endpoints_at: offset of the addresses of brokers that end a response [B], as `Op.ENDPOINTS`; the same.
        endpoints_size: offsets of the size of a tagged field with addresses, from and to, and its value [B]; the same.
        addresses: addresses of brokers, for the caller to take; None, the initial value, if they are passed over.
        addresses_end: True once no address follows, but in a tagged field.
        is_bounded: True if the walk ends for a problem after `MAX_STEPS` fields; the initial value, unless leaders are
            read.
        problem: why the walk ended before the end of the body; empty otherwise.
        is_done: True once the layout's end was reached.
        on_end: called once then, or when the walk ends for a problem.
    """

    __slots__ = (
        "_at",
        "_code",
        "_data",
        "_endpoints",
        "_passed",
        "_read_batches",
        "_read_leaders",
        "_steps",
        "_steps_left",
        "_topic",
        "addresses",
        "addresses_end",
        "batches",
        "compressions",
        "endpoints_at",
        "endpoints_size",
        "errors",
        "is_bounded",
        "is_done",
        "on_end",
        "problem",
        "record_bytes",
        "records",
        "throttle_time_at",
        "topics",
        "values",
    )

    def __init__(self, steps: tuple[Step, ...], *, read_batches: bool = False, read_leaders: bool = False) -> None:
        self.values: dict[str, int | str | None] = {}
        self.errors: dict[int, int] = {}
        self.topics: dict[str, Topic] = {}
        self.batches = self.records = self.record_bytes = 0
        self.compressions = [0] * len(COMPRESSIONS)
        self.throttle_time_at: int | None = None
        self.endpoints_at: int | None = None
        self.endpoints_size: tuple[int, int, int] | None = None
        self.addresses: list[Address] | None = None
        self.addresses_end = False
        self.is_bounded = not read_leaders
        self.problem = ""
        self.is_done = False
        self.on_end: Callable[[Walk], None] | None = None
        self._read_batches = read_batches
        self._read_leaders = read_leaders
        self._code = 0  # the latest error code
        self._topic = Topic()
        self._endpoints: tuple[Step, ...] = ()  # of a tagged field that is yet to come
        self._steps_left = MAX_STEPS
        self._data = b""
        self._at = 0  # may be beyond the data: those bytes are passed over
        self._passed = 0  # bytes of the body before the data
        self._steps = self._walk(steps)

    @property
    def position(self) -> int:
        """Bytes of the body that were passed over so far; may be ahead of what was fed."""
        return self._passed + self._at

    @property
    def ahead(self) -> int:
        """Number of the next bytes that are passed over unread [B]."""
        return max(self._at - len(self._data), 0)

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes of the body, of any number."""
        if self.is_done or self.problem:
            return
        left = len(self._data) - self._at
        if left > 0:
            self._passed += self._at
            self._data = self._data[self._at :] + chunk
            self._at = 0
        else:
            self._passed += len(self._data)
            self._at = -left
            self._data = chunk
        if self._at > len(chunk) and left <= 0:
            return
        try:
            next(self._steps)
            return
        except StopIteration:
            self.is_done = True
        except MalformedError as error:
            self.problem = str(error)
        self._data = b""
        if self.on_end is not None:
            self.on_end(self)

    # Parts of fixed or short length are read by methods that return False, or None, and change nothing while their
    # bytes are not at hand; only what may be long is a generator of its own.

    def _walk(self, steps: tuple[Step, ...], times: int = 1) -> Steps:  # noqa: C901  # per kind of step, hot
        for _ in range(times):
            self._steps_left -= len(steps)
            if self._steps_left < 0 and self.is_bounded:
                raise MalformedError("too many fields")
            for step in steps:
                op, size, _, inner, element_bytes = step
                if op is _SKIP:
                    self._at += size
                elif op is _TAGS:
                    if self._data[self._at : self._at + 1] == b"\0":  # none, as nearly always
                        self._at += 1
                        continue
                    while (tags := self._varint()) is None:
                        yield
                    yield from self._tags(tags)
                elif op is _ARRAY or op is _PARTITIONS:
                    count = 1  # a struct
                    if size >= 0:
                        while (length := self._length(size)) is None:
                            yield
                        count = max(length, 0)  # -1 for null
                    if op is _PARTITIONS:
                        self._topic.partitions = count
                    if element_bytes:
                        self._at += count * element_bytes
                    elif count:
                        yield from self._walk(inner, count)
                elif op is _RECORDS:
                    yield from self._records(size)
                elif op is _OPTIONAL:
                    yield from self._optional(inner)
                else:
                    while not self._leaf(step):
                        yield

    def _optional(self, steps: tuple[Step, ...]) -> Steps:
        while self._at >= len(self._data):
            yield
        self._at += 1
        if self._data[self._at - 1] < 0x80:
            yield from self._walk(steps)

    def _leaf(self, step: Step) -> bool:
        op = step.op
        if op is _ERROR:
            return self._error()
        if op is _THROTTLE_TIME or op is _ENDPOINTS or op is _ADDRESSES_END:
            self._mark(step)
            return True
        if op is _NUMBER or op is _TOPIC_ID or op is _LEADER or op is _ADDRESS:
            return self._fixed(step)
        before = self._at
        length = self._length(step.size)
        if length is None:
            return False
        if op is _SIZED:
            self._at += max(length, 0)
            return True
        if length > MAX_TEXT_BYTES:
            raise MalformedError(f"a string of {length} bytes at {self.position}")
        end = self._at + max(length, 0)
        if end > len(self._data):
            self._at = before
            return False
        text = None if length < 0 else self._data[self._at : end].decode(errors="replace")
        self._at = end
        if op is _TEXT:
            self.values[step.name] = text
        elif text is None:
            self._topic = Topic()  # named by the id that follows
        else:
            self._begin_topic(text, self.topics.get(text) or Topic(text, self._code))
        return True

    def _mark(self, step: Step) -> None:
        """Records an offset in the body."""
        if step.op is _THROTTLE_TIME:
            self.throttle_time_at = self.position
            self._at += step.size
        elif step.op is _ENDPOINTS:
            self.endpoints_at = self.position
            self._endpoints = step.steps if self.addresses is not None else ()
        else:
            self.addresses_end = True

    def _error(self) -> bool:
        end = self._at + 2
        if end > len(self._data):
            return False
        (code,) = _INT16.unpack_from(self._data, self._at)
        self._at = end
        self._code = code
        if code:
            self.errors[code] = self.errors.get(code, 0) + 1
        return True

    def _leader(self, size: int) -> bool:
        if self._read_leaders:
            if self._at + 8 > len(self._data):
                return False
            partition, leader = _PAIR.unpack_from(self._data, self._at)
            self._topic.leaders[partition] = leader
        self._at += size
        return True

    def _fixed(self, step: Step) -> bool:
        if step.op is _LEADER:
            return self._leader(step.size)
        if step.op is _ADDRESS:
            return self._address(step.size)
        end = self._at + step.size
        if end > len(self._data):
            return False
        value = self._data[self._at : end]
        self._at = end
        if step.op is _NUMBER:
            self.values[step.name] = int.from_bytes(value, "big", signed=True)
        elif any(value):
            name = value.hex()
            self._begin_topic(name, self._topic if step.name else self.topics.get(name) or Topic())
        return True

    def _address(self, prefix: int) -> bool:
        start = self._at
        self._at += 4
        length = self._length(prefix)
        if length is not None and length > MAX_TEXT_BYTES:
            raise MalformedError(f"a host of {length} bytes at {self.position}")
        host = self._at
        port = host + max(length or 0, 0)
        if length is None or port + 4 > len(self._data):
            self._at = start
            return False
        self._at = port + 4
        if self.addresses is not None:
            data, passed = self._data, self._passed
            (node_id,), (port_number,) = _INT32.unpack_from(data, start), _INT32.unpack_from(data, port)
            name = data[host:port].decode(errors="replace")
            self.addresses.append(Address(passed + start, passed + self._at, node_id, name, port_number))
        return True

    def _begin_topic(self, name: str, topic: Topic) -> None:
        self._topic = topic
        if (len(self.topics) < MAX_TOPICS or self._read_leaders) and len(name) <= MAX_TOPIC_CHARACTERS:
            self.topics[name] = self._topic

    def _tags(self, count: int) -> Steps:
        for _ in range(count):
            self._steps_left -= 1
            if self._steps_left < 0 and self.is_bounded:
                raise MalformedError("too many fields")
            while (tag := self._varint()) is None:
                yield
            size_at = self.position
            while (size := self._varint()) is None:
                yield
            if tag == 0 and self._endpoints:
                yield from self._tagged_addresses(size_at, size)
            else:
                self._at += size

    def _tagged_addresses(self, size_at: int, size: int) -> Steps:
        steps, self._endpoints = self._endpoints, ()  # tagged fields within are others
        self.endpoints_size = size_at, self.position, size
        end = self.position + size
        yield from self._walk(steps)
        if self.position != end:
            raise MalformedError(f"addresses of brokers that end at {self.position} in place of {end}")

    def _length(self, size: int) -> int | None:
        """Reads a length: of 2 or 4 bytes, or a varint (0) that is one more; negative for null. None: not at hand."""
        if size == 0:
            data, at = self._data, self._at
            if at < len(data) and data[at] < 0x80:  # as nearly always
                self._at = at + 1
                return data[at] - 1
            value = self._varint()
            return None if value is None else value - 1
        if self._at + size > len(self._data):
            return None
        form = _INT16 if size == 2 else _INT32
        length: int = form.unpack_from(self._data, self._at)[0]
        if length < -1:
            raise MalformedError(f"a length of {length} at {self.position}")
        self._at += size
        return length

    def _varint(self) -> int | None:
        """Reads an unsigned varint; None: not at hand."""
        data, at = self._data, self._at
        if at < len(data) and data[at] < 0x80:
            self._at = at + 1
            return data[at]
        value, end = scan_varint(data, at, len(data), _MAX_VARINT_BYTES)
        if end < 0 and len(data) - at < _MAX_VARINT_BYTES:
            return None
        if end > 0 and value <= _MAX_INT32:
            self._at = end
            return value
        raise MalformedError(f"a varint that is too long at {self.position}")

    def bound(self) -> None:
        """Limits the number of steps again, once the part that needed all fields is done, unless leaders are read."""
        self.is_bounded = not self._read_leaders

    def _records(self, prefix: int) -> Steps:
        while (length := self._length(prefix)) is None:
            yield
        size = max(length, 0)
        self.record_bytes += size
        self._topic.record_bytes += size
        end = self.position + size
        if self._read_batches:
            for _ in range(MAX_BATCHES):
                left = end - self.position
                if left < _OLD_MESSAGE_BYTES:
                    break
                while not self._batch(left):
                    yield
        self._at = end - self._passed

    def _batch(self, left: int) -> bool:
        if self._at + min(_BATCH_HEADER_BYTES, left) > len(self._data):
            return False
        length, magic = _LENGTH_AND_MAGIC.unpack_from(self._data, self._at)
        if length + _BATCH_OVERHEAD_BYTES < _OLD_MESSAGE_BYTES:
            raise MalformedError(f"a record batch of {length} bytes at {self.position}")
        if magic >= 2:
            if left < _BATCH_HEADER_BYTES:
                self._at += left
                return True
            (attributes,) = _ATTRIBUTES.unpack_from(self._data, self._at)
            self.records += max(_RECORDS_COUNT.unpack_from(self._data, self._at)[0], 0)
        else:
            attributes = self._data[self._at + _OLD_MESSAGE_BYTES - 1]
            self.records += 1  # of a compressed one only the wrapper is seen
        self.batches += 1
        codec = attributes & 7
        if codec < len(COMPRESSIONS):
            self.compressions[codec] += 1
        self._at += length + _BATCH_OVERHEAD_BYTES
        return True

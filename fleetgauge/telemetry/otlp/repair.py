"""Replaces text that is not UTF-8 in a payload, as `bytes.decode("utf-8", "replace")` does. Compiled by mypyc.

OTLP's strings are UTF-8, and protobuf's parsers reject a whole message for one that is not. Clients in C send the bytes
of their configuration as they are: librdkafka puts a Latin-1 `client.rack` or `group.id` into every payload.

Only the fields on the way to a replaced text are encoded again; all others keep their bytes. What cannot be walked at
all is a `ValueError` with the position, which is more than protobuf's parser tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fleetgauge.base.varint import MAX_VARINT_BYTES, encode_varint, scan_varint
from fleetgauge.telemetry.otlp.fields import (
    BYTES,
    MAX_DEPTH,
    MESSAGE,
    STRING,
)

if TYPE_CHECKING:
    from mypy_extensions import i64

MAX_FIELDS: Final = 1 << 20
"""Maximum number of fields that are walked: 16 MiB of fields of 16 bytes. Real ones are larger."""
MAX_EXAMPLE_CHARS: Final = 48
"""Maximum length of `TextRepair.example`."""

_MAX_TAG_BYTES: Final = 5
_START_GROUP: Final = 3
_END_GROUP: Final = 4


class TextRepair:
    """One payload with its invalid text replaced.

    Attributes:
        metrics: the payload; the same object if no text was replaced.
        replaced: number of texts that were replaced.
        example: the first of them as replaced, cut; empty if there are none.

    Raises:
        ValueError: the bytes are not a message; the text says why, and where.
    """

    def __init__(self, data: bytes, table: bytes) -> None:
        """Reads `data`; `table` is from `schema.table_of`, the row of its own type first."""
        self._data = data
        self._table = table
        self._fields_left: i64 = MAX_FIELDS
        self.replaced = 0
        self.example = ""
        changed = self._message(0, len(data), 0, MAX_DEPTH)
        self.metrics = data if changed is None else changed

    def _message(self, at: i64, end: i64, row: i64, depth: i64) -> bytes | None:
        """The message in `at:end` with its invalid text replaced; None if there is none."""
        data = self._data
        pieces: list[bytes] = []
        kept: i64 = at
        while at < end:
            start: i64 = at
            tag, at = self._tag(at, end)
            if tag < 8:
                raise ValueError(f"field number 0 does not exist at byte {start}")
            if tag & 7 != 2:
                at = self._scalar_end(tag, start, at, end, depth)
                continue
            content, stop = self._length(start, at, end)
            action: i64 = BYTES
            if tag < 128:
                action = self._table[row + tag]
            changed: bytes | None = None
            if action >= MESSAGE:
                if depth == 0:
                    raise ValueError(f"messages are nested deeper than {MAX_DEPTH} at byte {start}")
                changed = self._message(content, stop, (action - MESSAGE) << 7, depth - 1)
            elif action == STRING and not _is_text(data[content:stop]):
                changed = self._text(content, stop)
            if changed is not None:
                pieces.append(data[kept:at])
                pieces.append(encode_varint(len(changed)))
                pieces.append(changed)
                kept = stop
            at = stop
        if not pieces:
            return None
        pieces.append(data[kept:end])
        return b"".join(pieces)

    def _text(self, start: i64, stop: i64) -> bytes:
        text = str(self._data[start:stop], "utf-8", "replace")
        if self.replaced == 0:
            self.example = text[:MAX_EXAMPLE_CHARS]
        self.replaced += 1
        return text.encode()

    def _tag(self, at: i64, end: i64) -> tuple[i64, i64]:
        """A field's tag, and the position after it."""
        self._fields_left -= 1
        if self._fields_left < 0:
            raise ValueError(f"there are more than {MAX_FIELDS} fields")
        tag, after = scan_varint(self._data, at, end, _MAX_TAG_BYTES)
        if after < 0 or tag > 0xFFFFFFFF:
            raise ValueError(f"a field's tag is cut off or too long at byte {at}")
        return tag, after

    def _length(self, start: i64, at: i64, end: i64) -> tuple[i64, i64]:
        """Where the content of the field at `start` begins and ends."""
        size, after = scan_varint(self._data, at, end, _MAX_TAG_BYTES)
        if after < 0:
            raise ValueError(f"a length is cut off or too long at byte {at}")
        if size > end - after:
            raise ValueError(f"a field claims {size} bytes, {end - after} are left at byte {start}")
        return after, after + size

    def _scalar_end(self, tag: i64, start: i64, at: i64, end: i64, depth: i64) -> i64:
        """The end of a field that is no bytes: a number, or a group, which OTLP does not have."""
        wire_type: i64 = tag & 7
        if wire_type == 0:
            at = scan_varint(self._data, at, end, MAX_VARINT_BYTES)[1]
            if at < 0:
                raise ValueError(f"a number is cut off or too long at byte {start}")
        elif wire_type == 1:
            at += 8
        elif wire_type == 5:
            at += 4
        elif wire_type == _START_GROUP:
            return self._group_end(tag >> 3, start, at, end, depth)
        else:
            raise ValueError(f"wire type {wire_type} is not expected at byte {start}")
        if at > end:
            raise ValueError(f"a number is cut off at byte {start}")
        return at

    def _group_end(self, number: i64, start: i64, at: i64, end: i64, depth: i64) -> i64:
        if depth == 0:
            raise ValueError(f"messages are nested deeper than {MAX_DEPTH} at byte {start}")
        while at < end:
            inner: i64 = at
            tag, at = self._tag(at, end)
            if tag & 7 == _END_GROUP and tag >> 3 == number:
                return at
            at = self._length(inner, at, end)[1] if tag & 7 == 2 else self._scalar_end(tag, inner, at, end, depth - 1)
        raise ValueError(f"a group does not end at byte {start}")


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True

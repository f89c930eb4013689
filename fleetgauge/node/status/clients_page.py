"""One page of the inventory: the first rows by one column, selected from any number in bounded memory. Pure."""

import base64
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from fleetgauge.telemetry.instances.inventory import ClientRow, row_key

FIELDS: Final = ClientRow._fields
_LISTS: Final = ("subscriptions", "metrics")
SORT_KEYS: Final = tuple(field for field in FIELDS if field not in _LISTS)
DEFAULT_SORT: Final = "last_seen_at"
DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 5_000

_Key = tuple[bool, Any, str, str]
"""True if the sort column has no value, the value, the instance id, and `_mark` of the row."""
_MARK_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Selection of a page.

    Attributes:
        sort: a column; rows that are equal in it are sorted by instance id and sender.
        descending: the largest first; rows without a value come last in either order.
        limit: rows of a page.
        after: the cursor that the previous page returned as its `next`; empty for the first page.

    Raises:
        ValueError: one sentence on what is wrong, which quotes nothing of the request.
    """

    sort: str = DEFAULT_SORT
    descending: bool = True
    limit: int = DEFAULT_LIMIT
    after: str = ""

    def __post_init__(self) -> None:
        """Checks."""
        if self.sort not in SORT_KEYS:
            raise ValueError(f"sort has to be one of {', '.join(SORT_KEYS)}")
        if not 1 <= self.limit <= MAX_LIMIT:
            raise ValueError(f"limit is between 1 and {MAX_LIMIT}")


class ClientsPage:
    """Takes rows in any order and keeps those of the page.

    Attributes:
        total: rows taken, on this page or not.
    """

    def __init__(self, wanted: PageRequest) -> None:
        self._wanted = wanted
        self._column = FIELDS.index(wanted.sort)
        self._after = _read_cursor(wanted.after) if wanted.after else None
        self._kept: list[tuple[_Key, tuple[Any, ...]]] = []
        self.total = 0

    def take(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Takes some rows, with the fields of `ClientRow`."""
        for row in rows:
            self.total += 1
            key = self._key(row)
            if self._after is None or self._is_behind(key, self._after):
                self._kept.append((key, row))
        if len(self._kept) > 2 * self._wanted.limit + 1_000:
            self._trim()

    def rows(self) -> list[dict[str, Any]]:
        """The page."""
        self._trim()
        return [as_object(row) for _, row in self._kept[: self._wanted.limit]]

    def next(self) -> str | None:
        """The cursor of the next page; None if there is none."""
        self._trim()
        if len(self._kept) <= self._wanted.limit:
            return None
        _, value, instance_id, mark = self._kept[self._wanted.limit - 1][0]
        text = json.dumps([value, instance_id, mark], separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode()

    def _key(self, row: tuple[Any, ...]) -> _Key:
        value = row[self._column]
        client = ClientRow._make(row)
        return (value is None, value, client.client_instance_id, _mark(client))

    def _trim(self) -> None:
        """Keeps the rows of the page and one more, which shows that there is a next page."""
        filled = [entry for entry in self._kept if not entry[0][0]]
        empty = [entry for entry in self._kept if entry[0][0]]
        filled.sort(key=lambda entry: entry[0], reverse=self._wanted.descending)
        empty.sort(key=lambda entry: entry[0][2:], reverse=self._wanted.descending)
        self._kept = (filled + empty)[: self._wanted.limit + 1]

    def _is_behind(self, key: _Key, cursor: _Key) -> bool:
        """True if a row comes after that of the cursor, in the order of the page."""
        if key[0] != cursor[0]:
            return key[0]
        mine, other = (key[2:], cursor[2:]) if key[0] else (key[1:], cursor[1:])
        try:
            return mine < other if self._wanted.descending else mine > other
        except TypeError:
            raise ValueError(_BAD_CURSOR) from None


_BAD_CURSOR: Final = "after is not a cursor of this sort: take it from the previous page, or omit it"


def _read_cursor(text: str) -> _Key:
    try:
        value, instance_id, mark = json.loads(base64.urlsafe_b64decode(text.encode()))
    except (ValueError, TypeError):
        raise ValueError(_BAD_CURSOR) from None
    if not isinstance(value, int | str | None) or not isinstance(instance_id, str) or not isinstance(mark, str):
        raise ValueError(_BAD_CURSOR)
    return (value is None, value, instance_id, mark)


def _mark(row: ClientRow) -> str:
    """Digest of what distinguishes rows of one instance id, so that a cursor is short however long a client's names."""
    return hashlib.blake2b(repr(row_key(row)).encode(), digest_size=_MARK_BYTES).hexdigest()


def as_object(row: Iterable[Any]) -> dict[str, Any]:
    """A row with its field names."""
    return dict(zip(FIELDS, row, strict=True))

"""Bounds what an untrusted client may have written into every record of its own."""

from typing import Final

_MAX_BYTES_PER_CHARACTER: Final = 4


class LabelBound:
    """Cuts label values to a size in UTF-8.

    Attributes:
        surely_fits: values of so many characters need no look, which saves a call for nearly every one.
        truncated: values that were cut.
    """

    __slots__ = ("_max_bytes", "surely_fits", "truncated")

    def __init__(self, max_bytes: int) -> None:
        """Lets values of up to `max_bytes` [B, UTF-8] through."""
        self._max_bytes = max_bytes
        self.surely_fits = max_bytes // _MAX_BYTES_PER_CHARACTER
        self.truncated = 0

    def __call__(self, value: str) -> str:
        """The value, cut before the first character that does not fit."""
        if len(value) <= self.surely_fits:
            return value
        encoded = value.encode()
        if len(encoded) <= self._max_bytes:
            return value
        self.truncated += 1
        return encoded[: self._max_bytes].decode(errors="ignore")

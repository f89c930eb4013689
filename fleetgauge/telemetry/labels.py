"""Bounds the client-given labels that are stored with every push."""

from typing import Final

_MAX_BYTES_PER_CHARACTER: Final = 4


class LabelBound:
    """Cuts label values to a maximum size in UTF-8.

    Attributes:
        surely_fits: number of characters that always fit; callers skip the call for shorter values.
        truncated: number of values cut.
    """

    def __init__(self, max_bytes: int) -> None:
        """Accepts values of up to `max_bytes` [B, UTF-8]."""
        self._max_bytes = max_bytes
        self.surely_fits = max_bytes // _MAX_BYTES_PER_CHARACTER
        self.truncated = 0

    def __call__(self, value: str) -> str:
        """Returns the value, cut before the first character that does not fit."""
        if len(value) <= self.surely_fits:
            return value
        encoded = value.encode()
        if len(encoded) <= self._max_bytes:
            return value
        self.truncated += 1
        return encoded[: self._max_bytes].decode(errors="ignore")

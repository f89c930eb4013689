"""Durations as rules and options say them."""

import re
from typing import Final

_LONGEST_S: Final = 30 * 86_400
_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


def parse_duration_us(text: str) -> int | None:
    """A duration [us], or None if the text is none, or is longer than 30 days.

    >>> parse_duration_us("180s"), parse_duration_us("5m"), parse_duration_us("soon")
    (180000000, 300000000, None)
    """
    match = re.fullmatch(r"([0-9]{1,9})(ms|s|m|h|d)", text)
    if match is None or (seconds := int(match[1]) * _UNITS[match[2]]) > _LONGEST_S:
        return None
    return round(seconds * 1_000_000)

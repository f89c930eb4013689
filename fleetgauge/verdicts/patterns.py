"""Regular expressions (RE2, by pyarrow) that have to match a whole text."""

from typing import Any

from fleetgauge.verdicts.arrow import Array, Numbers, as_numpy, pa, pc
from fleetgauge.verdicts.errors import RulesError


def check_pattern(key: str, pattern: Any) -> None:
    """Raises RulesError if `pattern` is not a regular expression."""
    try:
        if isinstance(pattern, str) and matches(pa.array([""]), pattern) is not None:
            return
    except pa.ArrowInvalid:
        pass
    raise RulesError(f"{key} is {pattern!r}: give a regular expression that RE2 takes, which has to match the whole")


def check_patterns(key: str, patterns: Any) -> None:
    """Raises RulesError if `patterns` is not a list of regular expressions."""
    if not isinstance(patterns, list):
        raise RulesError(f"{key} is {patterns!r}: give a list of regular expressions")
    for pattern in patterns:
        check_pattern(key, pattern)


def matches(texts: Array, pattern: str) -> Numbers:
    """True for each text that `pattern` matches; False for null.

    >>> matches(pa.array(["billing-1", "billing", None]), "billing-.*").tolist()
    [True, False, False]
    """
    return as_numpy(pc.match_substring_regex(texts, rf"\A(?:{pattern})\z"), False)

"""Suggestions for names that are not known: what was probably meant."""

import difflib
from collections.abc import Iterable
from typing import Final

_COMPARED_CHARACTERS: Final = 200


def nearest(word: str, known: Iterable[str]) -> str:
    """The most similar known word; empty if none is similar.

    >>> nearest("promethues", ["otlp", "prometheus"]), nearest("kafka", ["otlp"])
    ('prometheus', '')
    """
    return next(iter(difflib.get_close_matches(word[:_COMPARED_CHARACTERS], list(known), n=1)), "")


def did_you_mean(suggestion: str) -> str:
    """The end of an error about an unknown word.

    >>> did_you_mean("prometheus"), did_you_mean("")
    ('; did you mean prometheus?', '')
    """
    return f"; did you mean {suggestion}?" if suggestion else ""

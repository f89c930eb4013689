"""Text that clients, brokers and collectors chose, made safe for terminals and spreadsheets.

A client names its own client.id, software and topics, and whoever has a certificate its principal. Every output for
people passes such text through here; JSON and Parquet hold it exactly. The standard library alone, so that it may ship
to Spark's executors.
"""

import re
from typing import Final

_FORMULA: Final = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
"""Characters that begin a formula in spreadsheets (OWASP, CSV Injection), with the full-width forms of some locales.
Tab and carriage return, which begin one as well, do not print and so become escapes.
"""

_NOT_JSON: Final = re.compile(r"[^\x20-\x7e]")


def printable(text: str) -> str:
    r"""One line without commands to a terminal: every character that does not print is written as its escape.

    Those are control characters (C0, DEL, C1), what reverses the direction of writing, separators of lines, and what
    has no width.

    >>> print(printable("orders\x1b[2J\n\u202efake"))
    orders\x1b[2J\n\u202efake
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable_json(text: str) -> str:
    r"""The same for JSON on one line, which stays JSON of the same value.

    >>> print(printable_json('{"client_id": "\x9b2J\u202e\U000e0001"}'))
    {"client_id": "\u009b2J\u202e\udb40\udc01"}
    """
    return text if text.isprintable() else _NOT_JSON.sub(_json_escape, text)


def _json_escape(match: re.Match[str]) -> str:
    if match[0].isprintable():
        return match[0]
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def csv_value(value: object) -> object:
    r"""A value as a cell of CSV that no spreadsheet takes for a formula; numbers stay numbers, None is empty.

    Text that begins like a formula gets an apostrophe before it, which spreadsheets take for "this is text".

    >>> csv_value('=HYPERLINK("http://x")'), csv_value(" +1"), csv_value("\t=1"), csv_value(-1.5), csv_value(None)
    ('\'=HYPERLINK("http://x")', "' +1", '\\t=1', -1.5, '')
    """
    if isinstance(value, str):
        return csv_text(value)
    return "" if value is None else value


def csv_text(text: str) -> str:
    """`csv_value` of text, also of digits."""
    safe = printable(text)
    return f"'{safe}" if safe.lstrip()[:1] in _FORMULA else safe

"""The kinds of fields that messages have (`schema.table_of`). Compiled by mypyc.

Needs the standard library alone, as what `fleet` ships to executors does.
"""

from typing import Final

UNDECIDED: Final = 0
"""Action for a field (`schema.table_of`): leave the decision to protobuf's parser."""
VARINT: Final = 1
FIXED64: Final = 2
FIXED32: Final = 3
BYTES: Final = 4
STRING: Final = 5
PACKED_VARINT: Final = 6
PACKED_FIXED64: Final = 7
MESSAGE: Final = 8
"""The first message type; the others count on from here."""

MAX_DEPTH: Final = 100
"""Nesting limit of protobuf's own parsers."""

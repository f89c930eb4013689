"""The `match` of a client-metrics resource, evaluated by RE2."""

import base64
import functools
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import re2

from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.telemetry.push_record import format_instance_id

_MAX_PATTERN_MEMORY_BYTES: Final = 1 << 20
"""Bounds the compiled form of one pattern; a larger one is refused."""


class ClientMatchingParam(StrEnum):
    """The six selectors (KIP-714, Client metrics configuration)."""

    CLIENT_INSTANCE_ID = "client_instance_id"
    CLIENT_ID = "client_id"
    CLIENT_SOFTWARE_NAME = "client_software_name"
    CLIENT_SOFTWARE_VERSION = "client_software_version"
    CLIENT_SOURCE_ADDRESS = "client_source_address"
    CLIENT_SOURCE_PORT = "client_source_port"


_PARAMS: Final[frozenset[str]] = frozenset(ClientMatchingParam)
_QUOTED_PART = re.compile(r'[^=,]*=\s*"(?:[^"]|"")*"\s*(?=,|\Z)')
_PLAIN_PART = re.compile(r"[^,]*")

ClientAttributes = Mapping[ClientMatchingParam, tuple[str, ...]]
"""The forms of the client's value per selector; one of them has to match."""


def instance_id_forms(instance_id: uuid.UUID) -> tuple[str, ...]:
    """Returns every form in which clients log an instance id, Kafka's own first.

    URL-safe base64 (Java), standard base64 without and with padding (librdkafka), 32 hex digits (franz-go), and the
    hyphenated form.
    """
    standard = base64.b64encode(instance_id.bytes).decode()
    return (format_instance_id(instance_id), standard[:22], standard, instance_id.hex, str(instance_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """One `name=pattern` of a `match`; the pattern has to match the whole value."""

    param: ClientMatchingParam
    pattern: Any  # an re2 pattern; untyped package

    def matches(self, attributes: ClientAttributes) -> bool:
        """True if the pattern matches the whole of one form of the client's value."""
        return any(self.pattern.fullmatch(form) is not None for form in attributes[self.param])


def parse_match(text: str) -> tuple[Selector, ...]:
    r"""Parses a `match`: `client_software_name=kafka_python,client_software_version=1\.2\..*`.

    A value may be in double quotes, and then contain `,` and `=` (`client_id="a=b,c"`, `client_id="x{2,3}"`); a
    quote in it is doubled. Repeated selectors all have to match (Kafka keeps the last one, against
    KIP-714's "all of the selectors").

    Raises:
        InvalidConfigError: with Kafka's text, for an unknown selector, a missing or second `=`, or a pattern that
            RE2 does not accept.
    """
    return tuple(_parse_selector(part) for part in split_match(text)) if text.strip() else ()


@functools.lru_cache(maxsize=256)
def match_size(text: str) -> int:
    """Instructions of the compiled patterns of a `match` [RE2 instructions]: the time to match a client is at most in
    proportion to them. 0 for one that is not valid, which is never matched.
    """
    try:
        return sum(selector.pattern.programsize for selector in parse_match(text))
    except InvalidConfigError:
        return 0


def split_match(text: str) -> Iterator[str]:
    """Splits at the commas outside quoted values. A quote starts a quoted value only directly after the `=`."""
    position = 0
    while position <= len(text):
        part = _QUOTED_PART.match(text, position) or _PLAIN_PART.match(text, position)
        assert part is not None  # a plain part may be empty, so it matches anywhere
        yield part[0]
        position = part.end() + 1


def _parse_selector(part: str) -> Selector:
    name, equals, value = (piece.strip() for piece in part.partition("="))
    quoted = len(value) >= 2 and value[0] == value[-1] == '"'
    legal = equals and name in _PARAMS and value and (quoted or "=" not in value)
    if not legal:
        raise _illegal(part)
    try:
        pattern = compile_pattern(value[1:-1].replace('""', '"') if quoted else value)
    except InvalidConfigError as error:
        raise _illegal(part) from error
    return Selector(param=ClientMatchingParam(name), pattern=pattern)


def compile_pattern(text: str) -> Any:
    """Compiles a pattern with RE2: linear time, bounded memory, no output on standard error.

    Raises:
        InvalidConfigError: RE2 does not accept it, or it would take too much memory.
    """
    try:
        return re2.compile(text, _re2_options())
    except re2.error as error:
        raise InvalidConfigError(f"{text!r} is not a pattern that RE2 supports") from error


def _illegal(part: str) -> InvalidConfigError:
    return InvalidConfigError(f"Illegal client matching pattern: {part.strip()}")


def _re2_options() -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_PATTERN_MEMORY_BYTES
    options.never_capture = True  # only a yes or no is needed, which is several times faster
    return options

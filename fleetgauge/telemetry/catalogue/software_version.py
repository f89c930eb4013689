"""Versions of client software from ApiVersions, and version ranges.

Clients write what they like there (`4.4.0`, `v1.22.2`, `2.16.1-rdkafka-2.16.0`, `7.6.0-ccs`), so nothing here raises
for a client's text: what is no version is None.
"""

import re
from dataclasses import dataclass
from typing import Final

_VERSION: Final = re.compile(r"v?(\d{1,9}(?:\.\d{1,9}){0,7})(?:[.\-+_]?([A-Za-z].*|\d.*))?", re.DOTALL)
_PRE_RELEASE: Final = re.compile(r"(?:rc|alpha|beta|snapshot|dev|pre|a\d|b\d|m\d)", re.IGNORECASE)
_BOUND: Final = re.compile(r"(>=|<=|==|>|<)?\s*(\S+)")
_MAX_VERSION_CHARACTERS: Final = 256


@dataclass(frozen=True, slots=True)
class SoftwareVersion:
    """A version: its numeric segments without zeros at the end, and whether it came before the release of that number.

    Other suffixes (a vendor's `-ccs`, a build's number) change nothing: they are that release, or a patched one.
    """

    segments: tuple[int, ...]
    is_pre_release: bool


def parse_version(text: str) -> SoftwareVersion | None:
    """Reads a version; None for what begins with no number.

    >>> parse_version("v1.22.0")
    SoftwareVersion(segments=(1, 22), is_pre_release=False)
    >>> parse_version("2.5.3-RC1").is_pre_release, parse_version("unknown")
    (True, None)
    """
    match = _VERSION.fullmatch(text.strip()[:_MAX_VERSION_CHARACTERS])
    if match is None:
        return None
    segments = [int(each) for each in match[1].split(".")]
    while segments and segments[-1] == 0:
        segments.pop()
    return SoftwareVersion(tuple(segments), _PRE_RELEASE.match(match[2] or "") is not None)


def version_of_part(text: str, part: str) -> str | None:
    """Returns the version of a library inside a client, after the last `<part>-`; None if it is not named.

    >>> version_of_part("2.5.0-rdkafka-2.5.0", "rdkafka")
    '2.5.0'
    >>> version_of_part("v2.4.8-rdkafka-ruby-v0.16.0-librdkafka-v2.5.0", "rdkafka")
    'v2.5.0'
    >>> version_of_part("4.4.0", "rdkafka")
    """
    _, separator, version = text.rpartition(f"{part}-")
    return version if separator else None


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Bounds that all have to hold; none is every version.

    A pre-release of a bound's version counts as inside at both ends: 2.5.3-RC1 may still have what 2.5.3 mended, and
    2.5.0-RC1 may have what 2.5.0 brought.
    """

    text: str
    bounds: tuple[tuple[str, SoftwareVersion], ...]

    def contains(self, version: SoftwareVersion) -> bool:
        """True if the version is inside every bound."""
        return all(_holds(operator, version, bound) for operator, bound in self.bounds)


def parse_range(text: str) -> VersionRange:
    """Reads a range: `>=2.5.0, <2.5.3`; a version alone means that one; `*` or nothing means all.

    Raises:
        ValueError: a bound is not an operator and a version.
    """
    parts = [part.strip() for part in text.split(",")]
    if parts in ([""], ["*"]):
        return VersionRange("*", ())
    return VersionRange(", ".join(parts), tuple(_parse_bound(part) for part in parts))


def _parse_bound(part: str) -> tuple[str, SoftwareVersion]:
    match = _BOUND.fullmatch(part)
    version = parse_version(match[2]) if match else None
    if match is None or version is None:
        raise ValueError(f"{part!r} is not a bound of a version range, for example >=2.5.0, <2.5.3 or 2.5.0")
    return match[1] or "==", version


def _holds(operator: str, version: SoftwareVersion, bound: SoftwareVersion) -> bool:
    mine, other = version.segments, bound.segments
    if mine == other:
        return "=" in operator or (operator == "<" and version.is_pre_release)
    return mine > other if ">" in operator else "<" in operator and mine < other

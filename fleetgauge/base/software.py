"""The client's software name and version, as ApiVersions v3 and later carry them (KIP-511)."""

import re
from typing import Final

UNKNOWN_SOFTWARE: Final = "unknown"
"""Name and version of a client that did not send them (Kafka's `ClientInformation.UNKNOWN_NAME_OR_VERSION`)."""

MAX_KEPT_CHARACTERS: Final = 4_096
"""Longest software name or version that is kept for a connection. Kafka's pattern has no limit, so one frame could
occupy `socket.request.max.bytes` of memory while its connection is open."""

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def is_valid_software(text: str) -> bool:
    """True for a software name or version that Kafka accepts.

    Letters, digits, `-` and `.`, with a letter or digit at both ends (Kafka's `ApiVersionsRequest.isValid`; Kafka
    answers INVALID_REQUEST otherwise).

    >>> is_valid_software("apache-kafka-java"), is_valid_software("4.0.0-"), is_valid_software("")
    (True, False, False)
    """
    return _SOFTWARE.fullmatch(text) is not None

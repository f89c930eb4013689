"""Settings of Kafka's Java clients as librdkafka takes them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final


class ClientSettingError(ValueError):
    """A setting of Java clients for which librdkafka has none."""


_LINE: Final = re.compile(r"([^=:\s]+)\s*[=:]?\s*(.*)")
_JAAS: Final = re.compile(r"(?:Plain|Scram)LoginModule\s+\w+\s+(.*?);?\s*$", re.DOTALL)
_JAAS_OPTION: Final = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;]+))""")
_OF_JAVA: Final = frozenset({
    "client.dns.lookup", "default.api.timeout.ms", "key.deserializer", "value.deserializer", "key.serializer",
    "value.serializer", "request.timeout.ms", "ssl.truststore.type", "ssl.truststore.password", "ssl.keystore.type",
    "ssl.keystore.password", "ssl.protocol", "ssl.enabled.protocols", "retries", "retry.backoff.ms",
})  # fmt: skip
"""Keys that an Admin client of librdkafka does without."""


def read_properties(text: str) -> dict[str, str]:
    """The keys of Java properties: comments begin with # or !, a backslash at the end joins lines."""
    joined = re.sub(r"\\\r?\n[ \t]*", "", text)
    lines = (line.strip() for line in joined.splitlines())
    matches = (_LINE.match(line) for line in lines if line and line[0] not in "#!")
    return {match[1]: _unescaped(match[2].strip()) for match in matches if match}


_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescaped(value: str) -> str:
    r"""A value of Java properties, in which a backslash escapes the character behind it.

    >>> print(_unescaped(r'password="a\\"b;c" caf\u00e9'))
    password="a\"b;c" café
    """

    def plain(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else _ESCAPES.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", plain, value)


def for_librdkafka(properties: Mapping[str, str]) -> dict[str, str]:
    """Settings of Java clients, as settings of librdkafka for an Admin client.

    Keys of librdkafka are handed on. `sasl.jaas.config` of PLAIN and SCRAM, and stores in PEM, are translated.

    Raises:
        ClientSettingError: librdkafka has no setting for one of them.
    """
    settings: dict[str, str] = {}
    for key, value in properties.items():
        if key not in _OF_JAVA:
            settings |= _translated(key, value)
    return settings


def _translated(key: str, value: str) -> dict[str, str]:
    match key:
        case "sasl.jaas.config":
            module = _JAAS.search(value)
            if module is None:
                raise ClientSettingError(
                    "sasl.jaas.config is understood of PlainLoginModule and ScramLoginModule; for others set "
                    "librdkafka's own keys, such as sasl.oauthbearer.config or sasl.kerberos.keytab"
                )
            options = {
                name: re.sub(r"\\(.)", r"\1", quoted) or single or bare
                for name, quoted, single, bare in _JAAS_OPTION.findall(module[1])
            }
            return {f"sasl.{name}": options[name] for name in ("username", "password") if name in options}
        case "ssl.truststore.location":
            return {"ssl.ca.location": _pem(key, value)}
        case "ssl.keystore.location":
            store = _pem(key, value)
            return {"ssl.certificate.location": store, "ssl.key.location": store}
        case "ssl.endpoint.identification.algorithm":
            return {key: value or "none"}
    return {key: value}


def _pem(key: str, value: str) -> str:
    if Path(value).suffix.lower() in (".jks", ".p12", ".pfx", ".keystore", ".truststore"):
        raise ClientSettingError(
            f"{key} is {value}, and librdkafka reads PEM: export the store's certificates with keytool "
            "-exportcert -rfc, and name that file"
        )
    return value

"""Settings of the sampler of consumer groups, and files with settings of Kafka's tools (`--command-config`)."""

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from zlib import crc32

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.push_log.kafka_topic.settings import OWN_CLIENT_KEYS


class OffsetsConfigError(FleetgaugeError):
    """A setting of the sampler, or its file of client settings, cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsSettings:
    """What is sampled, how often, and where the samples go.

    Attributes:
        bootstrap_servers: host:port,... of the cluster.
        path: root of the landing zone, a local path or a `pyarrow.fs` URI.
        writer: name of the folder for unfinished files; unique to this writer.
        client: librdkafka settings, such as security.
        groups: only these; empty for all that the broker lists.
        cluster_id: written to the samples in place of the cluster's own id; empty for that.
        interval_ms: time between the starts of two rounds [ms].
        timeout_ms: how long a broker may take for one request [ms].
        max_requests_per_s: calls of the Admin API [1/s].
        linger_ms: a file is written at this age [ms], or once it has many rows.
        retention_ms: folders of hours that ended longer ago are removed [ms]; None keeps all.
    """

    bootstrap_servers: str
    path: str
    writer: str
    client: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    cluster_id: str = ""
    interval_ms: int = 60_000
    timeout_ms: int = 5_000
    max_requests_per_s: int = 500
    linger_ms: int = 60_000
    retention_ms: int | None = None


def writer_name(bootstrap_servers: str) -> str:
    """A name for the writer of a cluster's samples: the same after a restart, another on another host."""
    return f"{platform.node()}-offsets-{crc32(bootstrap_servers.encode()):08x}"


_LINE: Final = re.compile(r"([^=:\s]+)\s*[=:]?\s*(.*)")
_JAAS: Final = re.compile(r"(?:Plain|Scram)LoginModule\s+\w+\s+(.*?);?\s*$", re.DOTALL)
_JAAS_OPTION: Final = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;]+))""")
_OF_JAVA: Final = frozenset({
    "client.dns.lookup", "default.api.timeout.ms", "key.deserializer", "value.deserializer", "key.serializer",
    "value.serializer", "request.timeout.ms", "ssl.truststore.type", "ssl.truststore.password", "ssl.keystore.type",
    "ssl.keystore.password", "ssl.protocol", "ssl.enabled.protocols", "retries", "retry.backoff.ms",
})  # fmt: skip
"""Keys of Java clients that an Admin client of librdkafka does without."""


def read_command_config(path: Path) -> dict[str, str]:
    """A file as `--command-config` of Kafka's tools takes it, as settings of librdkafka.

    Keys of librdkafka are handed on. `sasl.jaas.config` of PLAIN and SCRAM, and stores in PEM, are translated.

    Raises:
        OffsetsConfigError: it cannot be read, or names what librdkafka has no setting for.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise OffsetsConfigError(f"cannot read the client settings in {path}: {reason}") from error
    found: dict[str, str] = {}
    for key, value in _properties(text).items():
        if key not in _OF_JAVA and key not in OWN_CLIENT_KEYS:
            found |= _translated(key, value, path)
    return found


def _properties(text: str) -> dict[str, str]:
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


def _translated(key: str, value: str, path: Path) -> dict[str, str]:
    match key:
        case "sasl.jaas.config":
            module = _JAAS.search(value)
            if module is None:
                raise OffsetsConfigError(
                    f"{path}: sasl.jaas.config is understood of PlainLoginModule and ScramLoginModule; for others set "
                    "librdkafka's own keys, such as sasl.oauthbearer.config or sasl.kerberos.keytab"
                )
            options = {
                name: re.sub(r"\\(.)", r"\1", quoted) or single or bare
                for name, quoted, single, bare in _JAAS_OPTION.findall(module[1])
            }
            return {f"sasl.{name}": options[name] for name in ("username", "password") if name in options}
        case "ssl.truststore.location":
            return {"ssl.ca.location": _pem(key, value, path)}
        case "ssl.keystore.location":
            store = _pem(key, value, path)
            return {"ssl.certificate.location": store, "ssl.key.location": store}
        case "ssl.endpoint.identification.algorithm":
            return {key: value or "none"}
    return {key: value}


def _pem(key: str, value: str, path: Path) -> str:
    if Path(value).suffix.lower() in (".jks", ".p12", ".pfx", ".keystore", ".truststore"):
        raise OffsetsConfigError(
            f"{path}: {key} is {value}, and librdkafka reads PEM: export the store's certificates with keytool "
            "-exportcert -rfc, and name that file"
        )
    return value

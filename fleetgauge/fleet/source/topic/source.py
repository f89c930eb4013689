"""A topic as named on the command line: `kafka://host:port[,host:port]/topic`. Independent of Spark."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from fleetgauge.fleet.errors import SourceError
from fleetgauge.fleet.tables.paths import check_s3, is_s3

SCHEME: Final = "kafka://"
_FORM: Final = "kafka://host:port[,host:port]/topic"
_SERVER = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_OF_THE_SOURCE: Final = "bootstrap.servers"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource:
    """A topic with push records.

    Attributes:
        bootstrap_servers: as Kafka's clients take them.
        topic: its name.
        options: settings of Kafka's own client (security and the like), under Kafka's names.
        properties: the same as the text of a Java properties file; `options` go before it.
    """

    bootstrap_servers: str
    topic: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # passwords are among them
    properties: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"{SCHEME}{self.bootstrap_servers}/{self.topic}"


Source: TypeAlias = TopicSource | str
"""A topic, or the path or URI of a landing zone; `kafka://...` as text is a topic too."""


def parse_source(text: str, options: Iterable[str] = (), config: Path | None = None) -> TopicSource | str:
    """The source that `--source` names: a topic, or the landing zone with that path or URI.

    Args:
        text: the source.
        options: `key=value` settings of Kafka's client.
        config: a properties file with such settings, as Kafka's own tools take it with `--command-config`.

    Raises:
        SourceError: the address is in no form that is known, an option is no `key=value`, the file cannot be read,
            or client settings are given for what is no topic.
    """
    given = list(options)
    if not text.startswith(SCHEME):
        if given or config is not None:
            raise SourceError(f"settings of Kafka's client apply to --source {_FORM}, and {text} is not a topic")
        if is_s3(text):
            try:
                check_s3(text)
            except ValueError as error:
                raise SourceError(f"--source: {error}") from None
        return text
    servers, slash, topic = text.removeprefix(SCHEME).partition("/")
    _check_servers(text, servers)
    if not slash or _TOPIC.fullmatch(topic) is None or topic in (".", ".."):
        raise SourceError(f"{text} has no valid topic name: use {_FORM}")
    return TopicSource(
        bootstrap_servers=servers, topic=topic, options=parse_options(given), properties=_read(config) if config else ""
    )


def _check_servers(text: str, servers: str) -> None:
    for server in servers.split(","):
        match = _SERVER.fullmatch(server)
        if match is None or not 1 <= int(match[1]) <= 65_535:
            raise SourceError(f"{text}: bootstrap server {server!r} is not host:port; use {_FORM}")


def parse_options(texts: Iterable[str]) -> dict[str, str]:
    """`key=value` settings; Spark's prefix `kafka.` may stand before the key.

    >>> parse_options(["security.protocol=SSL", "kafka.sasl.mechanism=PLAIN"])
    {'security.protocol': 'SSL', 'sasl.mechanism': 'PLAIN'}

    Raises:
        SourceError: one of them is none, or names the bootstrap servers.
    """
    parsed = {}
    for text in texts:
        key, equals, value = text.partition("=")
        name = key.strip().removeprefix("kafka.")
        if not equals or not name:
            raise SourceError("a setting of Kafka's client has the form key=value, for example security.protocol=SSL")
        if name == _OF_THE_SOURCE:
            raise SourceError(f"{_OF_THE_SOURCE} is part of --source: use {_FORM}")
        parsed[name] = value
    return parsed


def _read(config: Path) -> str:
    try:
        return config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"cannot read the settings of Kafka's client in {config}: {error}") from error

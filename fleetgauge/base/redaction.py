"""Redaction of secrets in configuration values, URLs, error messages and log lines; knows which keys hold secrets."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

HIDDEN: Final = "[hidden]"
"""Replacement for a secret, as in Kafka's tools."""

_CHOSEN_BY_OPERATORS: Final = re.compile(
    r"^(?:exporters\.[^.]+\."
    r"|sasl\.users\..+\."
    r"|listener\.name\.(?:.+?\.(?=(?:ssl|sasl|connections?|max|proxy)\.)|[^.]+\.)"
    r"|(?:client-metrics|client-guard|quotas|acls|client\.id\.patterns)\..*)",
    re.DOTALL,
)
"""Prefix of a key up to the end of a name that an operator chose; the whole key in tables that hold no secrets. Names
of listeners and users may contain dots."""
_SECRET_KEY: Final = re.compile(
    r"passw|passphrase|pwd|secret|token|credential|jaas|kinit|private|authorization|cookie|signature|"
    r"oauthbearer\.(?:config|extensions)|(?:api|access|account|shared)[._-]?key|(?:^|\.)key(?:\.pem)?$",
    re.IGNORECASE,
)
_NAMES_NO_SECRET: Final = re.compile(r"\.(?:file|location|path|url|id|type|class|method|algorithm|ms|seconds|bytes)$")
"""Suffixes of keys that give the place of a secret or its handling: `sasl.oauthbearer.token.endpoint.url`."""
_TABLES_OF_SECRETS: Final = re.compile(r"(?:^|\.)headers(?:\.|$)|(?:^|\.)client$")
"""Every header, and librdkafka's settings written as one string."""
_TABLE_AS_TEXT: Final = re.compile(r"(?:^|\.)(?:headers|client)$")
_ADDRESS_KEY: Final = re.compile(r"(?:^|\.)(?:endpoint|url|uri|servers|host)$")

_USER_INFO: Final = re.compile(r"(?<=://)(?:[^/?#\s@]*:\S*|[^/?#\s]*)@")
_USER_INFO_OF_ONE: Final = re.compile(r"(?<=://)(?:[^/?#@]*:.*|[^/?#]*)@", re.DOTALL)
"""With a password, everything up to the last `@` matches: secret keys often contain a `/` that is not written as `%2F`.
The second pattern is for a string that is only a URI, which may contain white space where it should not."""
_USER_INFO_WITHOUT_SCHEME: Final = re.compile(r"^[^/?#@]*@")
_PARAMETER: Final = re.compile(r"(?<=[?&;#])([^=&;#?\s'\"]+)=([^&;#\s'\"]*)")
_PARAMETER_OF_ONE: Final = re.compile(r"(?<=[?&;#])([^=&;#?]+)=([^&;#]*)")
_SECRET_PARAMETER: Final = re.compile(r"secret|token|passw|pwd|sig|key|auth|cred|code|session|jwt", re.IGNORECASE)

_SHORTEST_HIDDEN: Final = 6
"""Shorter values are not searched for in text, where they may mean something else."""
_BEHIND_SCHEME: Final = re.compile(r"\s*(?:Bearer|Basic)\s+(.+?)\s*", re.IGNORECASE | re.DOTALL)
"""The credentials in the value of an `Authorization` header (RFC 7235)."""


def key_that_counts(key: str) -> str:
    """Returns a key without the name of an exporter, user or listener: the part that decides whether it is a secret.

    >>> key_that_counts("exporters.otlp-private.endpoint"), key_that_counts("client-metrics.token-service.match")
    ('endpoint', '')
    """
    return _CHOSEN_BY_OPERATORS.sub("", key)


def is_secret(key: str) -> bool:
    """True if the value of a key, in any table, must not be shown.

    >>> [is_secret(key) for key in ("headers.x-team", "client.sasl.password", "tls.key.file", "max.request.bytes")]
    [True, True, False, False]
    """
    key = key_that_counts(key)
    if _TABLES_OF_SECRETS.search(key):
        return True
    return bool(_SECRET_KEY.search(key)) and not _NAMES_NO_SECRET.search(key)


def shown(key: str, value: object) -> object:
    """Redacts a key's value, including nested lists and tables.

    >>> shown("endpoint", "https://me:pass@collector/v1?token=x&team=a")
    'https://collector/v1?token=[hidden]&team=a'
    """
    if isinstance(value, Mapping):
        return {name: shown(f"{key}.{name}", each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [shown(key, each) for each in value]
    if is_secret(key):
        return HIDDEN if value != "" else ""
    if not isinstance(value, str):
        return value
    if _ADDRESS_KEY.search(key) and "://" not in value:
        value = _USER_INFO_WITHOUT_SCHEME.sub("", value)
    return _PARAMETER_OF_ONE.sub(_shown_parameter, _USER_INFO_OF_ONE.sub("", value))


def without_credentials(text: str) -> str:
    """Removes user, password and secret parameters from the URIs in a text.

    >>> without_credentials("s3://key:secret@bucket/landing?region=eu-west-1")
    's3://bucket/landing?region=eu-west-1'
    >>> without_credentials("Cannot parse URI: 's3://key:sec/ret@bucket/landing?client_secret=x'")
    "Cannot parse URI: 's3://bucket/landing?client_secret=[hidden]'"
    >>> without_credentials("s3://bucket/landing@2")
    's3://bucket/landing@2'
    """
    return _PARAMETER.sub(_shown_parameter, _USER_INFO.sub("", text))


def names_a_user(url: str) -> bool:
    """True if a URL, with or without a scheme, contains a user, with or without a password.

    >>> names_a_user("http://me:pass@collector"), names_a_user("me@collector:4317"), names_a_user("http://h/a@b")
    (True, True, False)
    """
    return bool(_USER_INFO_OF_ONE.search(url) or ("://" not in url and _USER_INFO_WITHOUT_SCHEME.match(url)))


def secrets_in(key: str, value: object) -> Iterator[str]:
    """Yields the secret strings in a key's value, whole and in the parts that may appear on their own.

    >>> list(secrets_in("headers", "authorization=Bearer to-ken"))
    ['authorization=Bearer to-ken', 'Bearer to-ken', 'to-ken']
    """
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from secrets_in(f"{key}.{name}" if key else str(name), each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from secrets_in(key, each)
    elif isinstance(value, str) and is_secret(key):
        yield value
        if behind := _BEHIND_SCHEME.fullmatch(value):
            yield behind[1]
        if _TABLE_AS_TEXT.search(key):
            yield from secrets_in(key, _pairs(value))


def hide(text: str, secrets: Iterable[str]) -> str:
    """Replaces these secrets in a text, also in the form that `repr` or JSON gives them.

    >>> hide("refused: 'hunter2hunter2'", ["hunter2hunter2"])
    "refused: '[hidden]'"
    """
    for form in _forms(frozenset(secrets)):
        text = text.replace(form, HIDDEN)
    return text


@lru_cache(maxsize=4)  # applied to every log line
def _forms(secrets: frozenset[str]) -> tuple[str, ...]:
    """Strings to search for, longest first: a secret may be a prefix of another one."""
    kept = (secret for secret in secrets if len(secret) >= _SHORTEST_HIDDEN)
    # Twice: a log line in JSON may contain the `repr` of an exporter's settings.
    forms = {twice for secret in kept for once in _written(secret) for twice in _written(once)}
    return tuple(sorted(forms, key=len, reverse=True))


def _written(text: str) -> tuple[str, ...]:
    as_json = (json.dumps(text, ensure_ascii=ascii_alone)[1:-1] for ascii_alone in (True, False))
    return (text, repr(text)[1:-1], *as_json)


def _pairs(text: str) -> dict[str, str]:
    """A table that is written as one text, `a=b,c=d`."""
    pairs = (pair.partition("=") for pair in text.split(","))
    return {name.strip(): content.strip() for name, _, content in pairs}


def _shown_parameter(match: re.Match[str]) -> str:
    return f"{match[1]}={HIDDEN}" if _SECRET_PARAMETER.search(unquote(match[1])) else match[0]

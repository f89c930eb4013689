"""Reads the keys of one `[exporters.<name>]` table into settings, and rejects unknown keys by name.

Values are typed (TOML) or text (environment variables, overrides). A map is a table, whose keys arrive joined by dots
(`headers.authorization`), or text, `a=b,c=d`.

The functions at the end read the keys that all types of exporter share: batches, retries, labels. Their defaults are
defined with each type's settings.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.base.redaction import HIDDEN, shown, without_credentials
from fleetgauge.exporters.exporter import BatchSettings, RetrySettings
from fleetgauge.exporters.labels import LABEL_NAMES, LabelSettings


class ExporterConfigError(FleetgaugeError):
    """An invalid exporter configuration.

    Attributes:
        exporter: the name in `[exporters.<name>]`.
        key: the key within that table; empty if the error concerns the table as a whole.
        value: the given value, redacted.
        allowed: the allowed values, or what is wrong.
    """

    def __init__(self, exporter: str, key: str, value: object, allowed: str) -> None:
        value = shown(key, value)
        super().__init__(exporter, key, value, allowed)
        self.exporter = exporter
        self.key = key
        self.value = value
        self.allowed = allowed

    def __str__(self) -> str:
        if not self.key:
            return f"exporters.{self.exporter}: {self.allowed}"
        if self.value == HIDDEN:
            return f"exporters.{self.exporter}.{self.key}: {self.allowed}"
        return f"exporters.{self.exporter}.{self.key} is {self.value!r}: {self.allowed}"


class Options:
    """The keys of one exporter. Each read method takes a key, and so declares it as known.

    Args:
        exporter: its name, for messages.
        values: key -> value; `type` counts as read.
        sources: key -> the environment variable that the value comes from, if any.
    """

    def __init__(
        self, exporter: str, values: Mapping[str, object], *, sources: Mapping[str, str] | None = None
    ) -> None:
        self.exporter = exporter
        self._sources = dict(sources or {})
        self._left = {key: value for key, value in values.items() if key != "type"}
        self._known: list[str] = []

    def error(self, key: str, value: object, allowed: str) -> ExporterConfigError:
        """Makes the error for `key`; it names the environment variable that set the value, if any."""
        source = self.source(key) or self.source(key.partition(".")[0])
        if isinstance(value, str) and value:
            allowed = allowed.replace(value, str(shown(key, value)))
        why = f"{allowed} (from {source})" if source else allowed
        return ExporterConfigError(self.exporter, key, value, without_credentials(why))

    def source(self, key: str) -> str:
        """The environment variable that the value of `key` comes from; empty if none."""
        return self._sources.get(key, "")

    def text(self, key: str, default: str) -> str:
        """Reads a non-empty text."""
        value = self._take(key, default)
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, value, "expected a text that is not empty")
        return value.strip()

    def optional_text(self, key: str) -> str | None:
        """Reads a non-empty text; None if the key is missing."""
        value = self._take(key, None)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise self.error(key, value, "expected a text that is not empty; leave the key out for none")
        return value.strip() if isinstance(value, str) else None

    def integer(self, key: str, default: int, *, minimum: int, maximum: int = 2**31 - 1) -> int:
        """Reads an integer between `minimum` and `maximum`, both included."""
        value = self._take(key, default)
        allowed = f"expected a whole number from {minimum} to {maximum}"
        with suppress(ValueError):
            if isinstance(value, (int, str)) and not isinstance(value, bool) and minimum <= int(value) <= maximum:
                return int(value)
        raise self.error(key, value, allowed)

    def optional_integer(self, key: str, *, minimum: int, maximum: int = 2**31 - 1) -> int | None:
        """Reads an integer; None if the key is missing."""
        if key not in self._left:
            self._known.append(key)
            return None
        return self.integer(key, minimum, minimum=minimum, maximum=maximum)

    def choice(self, key: str, default: str, allowed: Sequence[str]) -> str:
        """Reads one of `allowed`, ignoring case."""
        value = self._take(key, default)
        if not isinstance(value, str) or value.strip().lower() not in allowed:
            raise self.error(key, value, f"expected one of {', '.join(allowed)}")
        return value.strip().lower()

    def flag(self, key: str, default: bool) -> bool:
        """Reads `true` or `false`."""
        value = self._take(key, default)
        text = str(value).strip().lower()
        if text not in ("true", "false"):
            raise self.error(key, value, "expected true or false")
        return text == "true"

    def names(self, key: str, default: Sequence[str], allowed: Sequence[str]) -> tuple[str, ...]:
        """Reads some of `allowed`, as a list or as comma-separated text; without repeats, in the given order."""
        value = self._take(key, list(default))
        names = value.split(",") if isinstance(value, str) else value
        if not isinstance(names, (list, tuple)):
            raise self.error(key, value, "expected a list of names")
        stripped = [str(name).strip() for name in names if str(name).strip()]
        for name in stripped:
            if name not in allowed:
                raise self.error(key, value, f"{name!r} is not one of {', '.join(allowed)}")
        return tuple(dict.fromkeys(stripped))

    def mapping(self, key: str, *, secret: bool = False) -> tuple[tuple[str, str], ...]:
        """Reads a map, sorted by name: a table, dotted keys below `key`, or `a=b,c=d`. Errors hide a `secret`."""
        value = self._take(key, {})
        pairs = dict(value) if isinstance(value, Mapping) else self._pairs(key, value, secret=secret)
        below = [name for name in self._left if name.startswith(f"{key}.")]
        pairs.update((name[len(key) + 1 :], self._left.pop(name)) for name in below)
        for name, content in pairs.items():
            if not isinstance(content, (str, int, float)):
                raise self.error(f"{key}.{name}", HIDDEN if secret else content, "expected a text")
        return tuple(sorted((str(name), _text(content)) for name, content in pairs.items()))

    def listed(self, key: str) -> tuple[str, ...]:
        """Reads one or more texts, as a list or as comma-separated text."""
        value = self._take(key, "")
        texts = value.split(",") if isinstance(value, str) else value
        if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
            raise self.error(key, value, "expected a list of texts, or text separated by commas")
        items = tuple(text.strip() for text in texts if text.strip())
        if not items:
            raise self.error(key, value, "expected at least one")
        return items

    def optional_listed(self, key: str) -> tuple[str, ...]:
        """Reads texts as `listed`; none if the key is missing."""
        if key in self._left:
            return self.listed(key)
        self._known.append(key)
        return ()

    def finish(self) -> None:
        """Checks, after the last key was read, that no key is left.

        Raises:
            ExporterConfigError: a key is unknown.
        """
        for key in self._left:
            allowed = ", ".join(sorted(self._known))
            # Without its value: an unknown key may hold a secret.
            raise self.error(key, HIDDEN, f"there is no such key for this type of exporter; there are type, {allowed}")

    def _take(self, key: str, default: object) -> object:
        self._known.append(key)
        return self._left.pop(key, default)

    def _pairs(self, key: str, value: object, *, secret: bool) -> dict[str, object]:
        shown_value = HIDDEN if secret else value
        if not isinstance(value, str):
            raise self.error(key, shown_value, "expected a table of texts, or name=value,name=value")
        pairs: dict[str, object] = {}
        for pair in filter(None, (part.strip() for part in value.split(","))):
            name, equals, content = pair.partition("=")
            if not equals or not name.strip():
                raise self.error(key, shown_value, "expected name=value,name=value")
            pairs[name.strip()] = content.strip()
        return pairs


def _text(content: object) -> str:
    return str(content).lower() if isinstance(content, bool) else str(content)


def batch_settings(options: Options, default: BatchSettings) -> BatchSettings:
    """Reads `batch.max.bytes`, `batch.max.records`, `linger.ms`."""
    return BatchSettings(
        max_bytes=options.integer("batch.max.bytes", default.max_bytes, minimum=1),
        max_records=options.integer("batch.max.records", default.max_records, minimum=1, maximum=1_000_000),
        linger_ms=options.integer("linger.ms", default.linger_ms, minimum=0),
    )


def retry_settings(options: Options, default: RetrySettings) -> RetrySettings:
    """Reads `retry.backoff.ms`, `retry.backoff.max.ms`."""
    backoff_max_ms = options.integer("retry.backoff.max.ms", default.backoff_max_ms, minimum=1)
    first_ms = min(default.backoff_ms, backoff_max_ms)
    backoff_ms = options.integer("retry.backoff.ms", first_ms, minimum=1, maximum=backoff_max_ms)
    return RetrySettings(backoff_ms=backoff_ms, backoff_max_ms=backoff_max_ms)


def label_settings(options: Options, default: LabelSettings, derived: Sequence[str] = ()) -> LabelSettings:
    """Reads `labels`, among which may be `derived` ones, `static.labels`, `namespace`, `label.max.bytes`."""
    chosen = options.names("labels", (*default.labels, *default.derived), (*LABEL_NAMES, *derived))
    static = options.mapping("static.labels") or default.static
    try:
        return LabelSettings(
            labels=tuple(name for name in chosen if name not in derived),
            derived=tuple(name for name in chosen if name in derived),
            static=static,
            namespace=options.optional_text("namespace") or default.namespace,
            max_value_bytes=options.integer("label.max.bytes", default.max_value_bytes, minimum=1),
        )
    except ValueError as error:
        raise options.error("static.labels", dict(static), str(error)) from error

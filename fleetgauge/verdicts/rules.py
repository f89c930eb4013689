"""The figures of every verdict: defaults in `rules.toml`, and the changes in an operator's own file."""

import difflib
import hashlib
import json
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fleetgauge.verdicts.errors import RulesError
from fleetgauge.verdicts.patterns import check_patterns
from fleetgauge.verdicts.user_rules import UserRule, is_number, parse_user_rules

DEFAULTS: Final = Path(__file__).with_name("rules.toml")
SEVERITIES: Final = ("critical", "warning", "info")
_MAX_FILE_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one verdict, by name; `of` has those of the other verdicts."""

    values: Mapping[str, Any]
    of: "Rules"

    def __getitem__(self, name: str) -> float:
        return float(self.values[name])

    def patterns(self, name: str) -> Sequence[str]:
        """A figure that is a list of regular expressions."""
        return tuple(self.values[name])

    def table(self, name: str) -> Mapping[str, float]:
        """A figure that is a table by name, such as by client id."""
        return dict(self.values[name])

    def history_s(self, window_s: int) -> float:
        """Length of a history from which on subjects are judged by it [s].

        Each of `history_windows` counts for 300 s, or half of `for_s` if that is less, or a judged window if that is
        longer: 3 of them with a `for_s` of 600 are 900 s in windows of 60 s, and 1800 s in windows of 600 s.
        """
        return self["history_windows"] * max(window_s, min(300.0, self["for_s"] / 2))

    @property
    def severity(self) -> str:
        """One of SEVERITIES."""
        return str(self.values["severity"])

    @property
    def hint_severity(self) -> str:
        """Severity of a hint; see `verdicts.declare.Finding`."""
        return str(self.values.get("hint_severity", self.severity))

    def is_on(self, name: str) -> bool:
        """A figure that is true or false."""
        return bool(self.values[name])

    @property
    def is_enabled(self) -> bool:
        """False if an operator switched the verdict off."""
        return bool(self.values["enabled"])


@dataclass(frozen=True, slots=True)
class Rules:
    """The figures of all verdicts, and an operator's own rules, each of which is a verdict of its own.

    Attributes:
        values: by the id of the verdict.
        own: rules of the operator's own.
    """

    values: Mapping[str, Mapping[str, Any]]
    own: tuple[UserRule, ...] = ()

    def __getitem__(self, verdict: str) -> Figures:
        return Figures(self.values[verdict], self)

    @property
    def metric_names(self) -> frozenset[str]:
        """Names of the metrics that own rules read."""
        return frozenset(name for rule in self.own for name in rule.metrics)

    @property
    def digest(self) -> str:
        """Digest of the rules: windows that were judged by other rules are judged again."""
        every = [self.values, [dict(rule.given) for rule in self.own]]
        return hashlib.sha256(json.dumps(every, sort_keys=True).encode()).hexdigest()[:16]


def default_rules() -> Rules:
    """The defaults."""
    return Rules(tomllib.loads(DEFAULTS.read_text(encoding="utf-8")))


def load_rules(path: Path | None) -> Rules:
    """The defaults, changed by a file if there is one.

    Raises:
        RulesError: it cannot be read, or has an unknown verdict or figure, or a wrong value.
    """
    if path is None:
        return default_rules()
    try:
        with path.open("rb") as file:  # a device has no size
            data = file.read(_MAX_FILE_BYTES + 1)
        if len(data) > _MAX_FILE_BYTES:
            raise RulesError(f"the rules in {path} are longer than {_MAX_FILE_BYTES:,} bytes: is this a rule file?")
        text = data.decode("utf-8-sig")  # some editors begin a file with a mark
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise RulesError(f"cannot read the rules in {path}: {reason}") from error
    return parse_rules(text, str(path))


def parse_rules(text: str, name: str = "rules", *, of_any_release: bool = False) -> Rules:
    r"""The defaults, changed by the text of a rule file.

    Args:
        text: TOML.
        name: for errors.
        of_any_release: True ignores unknown verdicts and figures, which are those of another release.

    >>> parse_rules("[slow-node]\nfactor = 3")["slow-node"]["factor"]
    3.0

    Raises:
        RulesError: see `load_rules`.
    """
    try:
        given = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits, brackets in brackets
        raise RulesError(f"{name}: not TOML: {error}") from error
    values = {verdict: dict(figures) for verdict, figures in default_rules().values.items()}
    own = parse_user_rules(given.pop("rules", {}), name)
    if taken := [rule.name for rule in own if rule.name in values]:
        raise RulesError(
            f"{name}: rules.{taken[0]} has the name of a verdict: write [{taken[0]}], or name it otherwise"
        )
    for verdict, figures in given.items():
        if verdict not in values:
            if of_any_release:
                continue
            raise RulesError(
                f"{name}: there is no verdict {verdict!r}{_nearest(verdict, values)}; rules of your own are tables "
                "named [rules.NAME]"
            )
        if not isinstance(figures, dict):
            raise RulesError(f"{name}: {verdict} is not a table of figures: write [{verdict}]")
        for key, value in figures.items():
            if key not in values[verdict]:
                if of_any_release:
                    continue
                raise RulesError(f"{name}: [{verdict}] has no figure {key!r}{_nearest(key, values[verdict])}")
            most = 1.0 if key.endswith("share") else math.inf
            values[verdict][key] = _checked(f"{name}: [{verdict}] {key}", value, values[verdict][key], most)
    values |= {rule.name: {"enabled": True, "severity": rule.severity, "for_s": 0} for rule in own}
    return Rules(values, own)


def as_toml(rules: Rules) -> str:
    """A rule file with every figure and own rule."""
    lines: list[str] = []
    own = {rule.name: rule.given for rule in rules.own}
    tables = {name: figures for name, figures in rules.values.items() if name not in own}
    tables |= {f"rules.{_json(name) if '.' in name else name}": given for name, given in own.items()}
    for verdict, figures in tables.items():
        lines += [f"[{verdict}]", *(f"{key} = {_toml(value)}" for key, value in figures.items()), ""]
    return "\n".join(lines)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_json(key)} = {_toml(each)}" for key, each in value.items()) + "}"
    return _json(value)


def _json(value: Any) -> str:
    """JSON that is also TOML, which has no surrogates and no bare DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _checked(where: str, value: Any, default: Any, most: float = math.inf) -> Any:
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise RulesError(f"{where} is true or false, not {value!r}")
    elif isinstance(default, str):
        if value not in SEVERITIES:
            raise RulesError(f"{where} is one of {', '.join(SEVERITIES)}, not {value!r}")
    elif isinstance(default, list):
        check_patterns(where, value)
    elif isinstance(default, dict):
        if not isinstance(value, dict):
            raise RulesError(f"{where} is a table of numbers by name, not {value!r}")
        return {name: _checked(f"{where}.{name}", number, 0.0) for name, number in value.items()}
    elif not is_number(value) or not 0 <= value <= most:
        raise RulesError(f"{where} is a number {'of 0 or more' if most > 1 else 'from 0 to 1'}, not {value!r}")
    return value


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name[:100], list(known), n=1)
    return f": did you mean {close[0]!r}?" if close else f": there are {', '.join(known)}"

"""`ssl.principal.mapping.rules` (KIP-371): maps a certificate's distinguished name to a principal name.

As in Kafka's `SslPrincipalMapper`, the first rule whose pattern matches the whole name decides. Operators write the
patterns and may use look-ahead and back references as in Java; Python's `re` supports these, RE2 does not.
"""

import re
from dataclasses import dataclass
from typing import Final

DEFAULT_RULES: Final = "DEFAULT"

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(,|$)")
_PARSER = re.compile(_RULE)
_REFERENCE = re.compile(r"\\(.)|\$(\d)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str] | None
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        """The principal name, or None if the rule does not match."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        result = self.pattern.sub(self._replaced, name)
        if self.case:
            result = result.lower() if self.case == "L" else result.upper()
        return result

    def _replaced(self, match: re.Match[str]) -> str:
        r"""Java's replacement: `$1` is a group, a reference to a missing group is kept, `\` escapes a character."""

        def put(reference: re.Match[str]) -> str:
            literal, group = reference.groups()
            if literal is not None:
                return str(literal)
            return (match[int(group)] or "") if int(group) <= match.re.groups else str(reference[0])

        return _REFERENCE.sub(put, self.replacement)


class PrincipalMapper:
    """The rules of one listener.

    >>> mapper = PrincipalMapper("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,DEFAULT")
    >>> mapper.name_of("CN=Orders,OU=ServiceUsers,O=Example"), mapper.name_of("CN=other")
    ('orders', 'CN=other')

    Args:
        rules: in Kafka's form, `RULE:pattern/replacement/[LU]` or `DEFAULT`, separated by commas.

    Raises:
        ValueError: a rule is malformed, or its pattern is not a regular expression.
    """

    def __init__(self, rules: str = DEFAULT_RULES) -> None:
        self._rules = _parse(rules)

    def name_of(self, distinguished_name: str) -> str | None:
        """The principal name, or None if no rule matches; such a client is refused."""
        names = (rule.apply(distinguished_name) for rule in self._rules)
        return next((name for name in names if name is not None), None)


def _parse(text: str) -> tuple[_Rule, ...]:
    rules = (_parse_rule(part[1]) for part in _SPLITTER.finditer(text.strip()))
    return tuple(rule for rule in rules if rule is not None)


def _parse_rule(text: str) -> _Rule | None:
    """One rule; None for an empty one, which is ignored."""
    match = _PARSER.match(text)
    if match is None or match.end() != len(text):
        raise ValueError(f"the rule {text!r} is neither DEFAULT nor RULE:pattern/replacement/ with L, U or nothing")
    if match[1] is not None:
        return _Rule(None, "", "")
    if match[2] is None:
        return None
    try:
        return _Rule(re.compile(match[2]), match[3], match[4])
    except re.error as error:
        raise ValueError(f"the pattern {match[2]!r} is not a regular expression: {error}") from error

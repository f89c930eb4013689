"""`ssl.principal.mapping.rules` (KIP-371): from a certificate's distinguished name to a principal's name.

As Kafka's `SslPrincipalMapper`: the first rule whose whole pattern fits decides. Patterns are an operator's, and use
what Java's expressions have (look-ahead, back references); so Python's engine runs them, and not RE2.
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
        """The principal's name, or None where the rule does not fit."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        result = self.pattern.sub(self._replaced, name)
        if self.case:
            result = result.lower() if self.case == "L" else result.upper()
        return result

    def _replaced(self, match: re.Match[str]) -> str:
        r"""Java's replacement: `$1` is a group, a reference to no group stands for itself, `\` takes what follows."""

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
        ValueError: a rule has another form, or its pattern is no regular expression.
    """

    __slots__ = ("_rules",)

    def __init__(self, rules: str = DEFAULT_RULES) -> None:
        self._rules = _parse(rules)

    def name_of(self, distinguished_name: str) -> str | None:
        """The principal's name, or None where no rule fits: such a client is not let in."""
        for rule in self._rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        return None


def _parse(text: str) -> tuple[_Rule, ...]:
    rules = []
    for part in _SPLITTER.finditer(text.strip()):
        rule = _parse_rule(part[1])
        if rule is not None:
            rules.append(rule)
    return tuple(rules)


def _parse_rule(text: str) -> _Rule | None:
    """One rule; None for an empty one, which is passed over."""
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
        raise ValueError(f"the pattern {match[2]!r} is no regular expression: {error}") from error

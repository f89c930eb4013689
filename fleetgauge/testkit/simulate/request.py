"""Values of `--with`: verdicts of the contract, their subjects and times."""

import re
from dataclasses import dataclass
from typing import Final

from fleetgauge.base.durations import parse_duration_us
from fleetgauge.fleet.errors import FleetError

SUBJECT_KINDS: Final = {
    "slow-node": "node",
    "slow-client": "client",
    "slow-path": "path",
    "throttled": "client",
    "rebalance-storm": "group",
    "slow-processing": "client",
    "lagging": "group",
    "stalled": "group",
    "idle-consumer": "client",
    "uneven-group": "group",
    "small-batches": "client",
    "uncompressed": "client",
    "buffer-full": "client",
    "record-errors": "client",
    "tiny-fetches": "client",
    "connection-churn": "client",
    "crash-loop": "client",
    "silent": "instance",
    "clock-skew": "instance",
    "outdated": "version",
    "deploy-regression": "client",
}
"""The verdicts that telemetry alone gives, and what each is about."""

ALL: Final = "all"
SOME: Final = "some"
OVERLAPPING: Final = "overlapping"

_PAIRS: Final = (
    ("slow-node", "slow-client"),
    ("deploy-regression", "slow-path"),
    ("slow-node", "record-errors"),
    ("slow-processing", "rebalance-storm"),
    ("slow-node", "lagging"),
    ("throttled", "slow-client"),
    ("slow-node", "buffer-full"),
    ("crash-loop", "connection-churn"),
    ("slow-node", "slow-path"),
    ("stalled", "deploy-regression"),
)
"""Pairs that `overlapping` causes at the same time, in different applications."""
_APART_S: Final = 600.0
"""Delay between the two of a pair [s]."""

LASTS_S: Final = 2_700.0
"""Duration of each with `--with all` [s]: longer than any verdict needs."""
_LEAST_HOURS_OF_ALL: Final = 1.5

_MICRO: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pathology:
    """One thing that goes wrong.

    Attributes:
        verdict: an id of SUBJECT_KINDS.
        subject: as the option has it; None leaves the choice to the seed.
        from_s, to_s: since the fleet's beginning [s].
        is_optional: left out where each application that fits has something else already.
    """

    verdict: str
    subject: str | None
    from_s: float
    to_s: float
    is_optional: bool = False


def parse_with(text: str, hours: float) -> tuple[Pathology, ...]:
    """The pathologies of `VERDICT[@SUBJECT]:FROM..TO[,...]`, or those of a word.

    `all` is one of each, `some` as many of each as the fleet has applications for, `overlapping` pairs at once.

    >>> parse_with("slow-node@3:30m..90m", 2)[0].to_s
    5400.0

    Raises:
        FleetError: the text is in no such form, or names times outside the fleet's hours.
    """
    pathologies: list[Pathology] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        pathologies += _of_word(part, hours) if part in (ALL, SOME, OVERLAPPING) else [_parse(part, hours)]
    return tuple(pathologies)


def _parse(text: str, hours: float) -> Pathology:
    match = re.fullmatch(r"(?P<verdict>[^@:]+)(?:@(?P<subject>.+))?:(?P<begin>[^.:@]+)\.\.(?P<end>[^.:@]+)", text)
    verdict = match["verdict"] if match else re.split("[@:]", text)[0]
    if verdict not in SUBJECT_KINDS:
        known = ", ".join((*SUBJECT_KINDS, SOME, OVERLAPPING))
        raise FleetError(f"--with: there is no verdict {verdict!r}; there are {known}, and {ALL}")
    if match is None:
        raise FleetError(f"--with: {text!r} needs times: {verdict}[@SUBJECT]:FROM..TO, such as {verdict}:30m..90m")
    begin, end = (_seconds(match[name], text) for name in ("begin", "end"))
    if not begin < end <= hours * 3600:
        raise FleetError(f"--with: {text!r} has to end after it begins, and within the {hours:g} hours of the fleet")
    return Pathology(verdict=verdict, subject=match["subject"], from_s=begin, to_s=end)


def _seconds(text: str, part: str) -> float:
    duration = 0 if text == "0" else parse_duration_us(text)
    if duration is None:
        raise FleetError(f"--with: {text!r} in {part!r} is not a time since the beginning: give 90s, 30m or 2h")
    return duration / _MICRO


def _of_word(word: str, hours: float) -> list[Pathology]:
    """One of each verdict, or pairs of them, at even times."""
    if hours < _LEAST_HOURS_OF_ALL:
        raise FleetError(
            f"--with {word} takes at least {_LEAST_HOURS_OF_ALL:g} hours: give --hours {_LEAST_HOURS_OF_ALL:g} or more"
        )
    at_once = _PAIRS if word == OVERLAPPING else [(verdict,) for verdict in SUBJECT_KINDS]
    room = hours * 3600 - LASTS_S - 1_500
    begins = [round(1_200 + room * number / (len(at_once) - 1)) for number in range(len(at_once))]
    return [
        Pathology(
            verdict=verdict,
            subject=None,
            from_s=begin + place * _APART_S,
            to_s=begin + LASTS_S,
            is_optional=word != ALL,
        )
        for begin, verdicts in zip(begins, at_once, strict=True)
        for place, verdict in enumerate(verdicts)
    ]

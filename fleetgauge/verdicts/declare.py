"""Declarations of verdicts, and their findings in a window."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from fleetgauge.verdicts.arrow import Numbers
from fleetgauge.verdicts.rules import Figures
from fleetgauge.verdicts.window import Subjects, Window

if TYPE_CHECKING:
    from fleetgauge.verdicts.memory import Memory

Side = Literal["client", "broker", "network", "quota", "unknown"]

PHYSICAL: Final = 0.95
OWN_HISTORY: Final = 0.9
PEERS: Final = 0.6
"""Highest certainty of a verdict, by the kind of comparison; `confidence` approaches it with time."""


TOO_YOUNG: Final = "it started a short time ago"
"""Reason to leave a unit out: a start is not typical of the time after it."""


SOURCES: Final = ("group-offsets", "telemetry", "gateway")
BY_OFFSETS, BY_TELEMETRY, BY_GATEWAY = 1, 2, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A number per unit (a row of a client, a group, ...) and its bound.

    Attributes:
        metric: its name, for the evidence.
        unit: of the number.
        observed: one per unit; NaN is not judged.
        bound: one per unit, or one for all.
        is_upper: True if a number above the bound is bad, False if one below it is.
        expected: the usual value, for the evidence; None is the bound.
        says: a sentence with `{subject}`, `{observed}`, `{bound}` and `{expected}`, and the names of `more`.
        more: further values of each unit for the sentence.
        is_mean: True for a mean over the window, which is nearer to `expected` if only a part of the window was bad.
        share: the share of the window that was bad, where that is known; None is all of it.
        adds_up: see `verdicts.evidence.ratio_of`.
        noise: of each unit, see `verdicts.evidence.beside_noise`; None is 0.
    """

    metric: str
    unit: str
    observed: Numbers
    bound: Numbers | float
    says: str
    is_upper: bool = True
    expected: Numbers | None = None
    more: Mapping[str, Numbers] = field(default_factory=dict)
    is_mean: bool = False
    share: Numbers | None = None
    adds_up: bool = False
    noise: Numbers | None = None

    @property
    def is_known(self) -> Numbers:
        """True where there is a number."""
        return ~np.isnan(self.observed) & ~np.isnan(self.bound)

    @property
    def is_bad(self) -> Numbers:
        """True where it is beyond the bound."""
        return self.observed > self.bound if self.is_upper else self.observed < self.bound

    def lift(self, unit: int) -> float:
        """(observed - expected) / (bound - expected) of a unit: above 1 is bad."""
        assert self.expected is not None
        observed, expected, bound = (float(value_of(each, unit)) for each in (self.observed, self.expected, self.bound))
        return (observed - expected) / max(bound - expected, 1e-9)

    def sides(self, units: Numbers) -> tuple[Numbers, Numbers]:
        """Figures and bounds of these units, swapped if bad is below; NaN where there is no number.

        So a unit is bad if its first number is larger than its second.
        """
        observed, bound = (np.broadcast_to(each, self.observed.shape)[units] for each in (self.observed, self.bound))
        return (observed, bound) if self.is_upper else (bound, observed)

    def among(self, before: int, after: int) -> "Threshold":
        """Adds `before` and `after` units that are not judged."""

        def wider(values: Any) -> Any:
            if not isinstance(values, np.ndarray):
                return values
            nothing: Any = {"O": None, "i": 0}.get(values.dtype.kind, np.nan)
            return np.pad(values, (before, after), constant_values=nothing)

        return replace(
            self,
            observed=wider(self.observed),
            bound=wider(self.bound),
            expected=wider(self.expected),
            share=wider(self.share),
            noise=wider(self.noise),
            more={name: wider(values) for name, values in self.more.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Result of a verdict for a window.

    Attributes:
        subjects: that are judged.
        unit_of: place of each unit's subject, or -1.
        tests: any of them that is bad makes a unit bad, and a bad unit its subject.
        judged: True for units that are judged; None is those for which a test has a number.
        rows: row of clients of each unit, where units are rows; None is all rows of the subject.
        concerned: returns the rows of the clients that a subject (by its place) concerns; None uses `rows`.
        named: returns the codes of the instances of a subject (by its place), where these have no rows.
        certainty: upper limit of `confidence`, per unit or for all.
        is_hint: True for units that may be bad for a harmless reason: of lower severity.
        of: number per unit that has to stay the same from window to window, such as that of a member.
        sources: SOURCES that each unit was judged by, as a sum of 1, 2 and 4; None is telemetry.
        principals: principal of each unit without instances, which would show it; else None.
        since_us: beginning of each bad unit, where it is known better than by the first bad window [us].
        left_out: by reason, True for the units that the tests leave out for it.
        disproved: True for subjects of which the window shows that what is not open yet is none.
    """

    subjects: Subjects
    tests: Sequence[Threshold]
    unit_of: Numbers
    judged: Numbers | None = None
    rows: Numbers | None = None
    concerned: Callable[[int], Numbers] | None = None
    named: Callable[[int], Numbers] | None = None
    certainty: Numbers | float = PHYSICAL
    is_hint: Numbers | bool = False
    of: Numbers | None = None
    sources: Numbers | None = None
    principals: Numbers | None = None
    since_us: Numbers | None = None
    left_out: Mapping[str, Numbers] = field(default_factory=dict)
    disproved: Numbers | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One verdict; its figures are in the rules under its id.

    Attributes:
        id: of the catalogue.
        kind: of its subject.
        side: that has to act.
        find: judges a window; None if the window lacks the input.
        action: one sentence, with `{subject}`, `{client}` and the figures.
        needs: for each library that sends enough, the columns that it is judged by, of which it sends at least one.
        roles: of the clients that it is about.
        explains: verdicts that it may be the cause of.
        by_offsets: True if samples of groups are enough for it, whatever the library.
        by_traffic: requests that are enough for it, whatever the library: of `verdicts.witnesses.traffic.KINDS`.
        history: the verdict whose `history_windows` it needs before it is possible; "" for none.
    """

    id: str
    kind: str = "client"
    side: Side = "client"
    find: Callable[[Window, "Memory", Figures], Finding | None]
    action: str
    needs: Mapping[str, tuple[str, ...]]
    roles: tuple[str, ...] = ("producer", "consumer")
    explains: tuple[str, ...] = ()
    by_offsets: bool = False
    by_traffic: tuple[str, ...] = ()
    history: str = ""


def of_clients(
    window: Window,
    tests: Sequence[Threshold],
    judged: Numbers | None = None,
    certainty: Numbers | float = PHYSICAL,
    sources: Numbers | None = None,
) -> Finding:
    """A finding about client ids, whose units are the rows of their instances."""
    subjects = window.clients
    return Finding(
        subjects=subjects, tests=tests, unit_of=subjects.of_row, judged=judged, rows=np.arange(len(window)),
        certainty=certainty, sources=sources,
    )  # fmt: skip


def of_subjects(subjects: Subjects, tests: Sequence[Threshold], **more: Any) -> Finding:
    """A finding whose units are the subjects themselves; `more` are further fields of `Finding`."""
    return Finding(subjects=subjects, tests=tests, unit_of=np.arange(len(subjects)), **more)


def value_of(values: Numbers | float, unit: int) -> Any:
    """The value of a unit, of one per unit or one for all."""
    return values[unit] if isinstance(values, np.ndarray) else values


_PLURAL: Final = re.compile(r"(?<=\w{3})s\b")  # of records, not of ms


def amount(value: float, unit: str) -> str:
    """A number with its unit, for a sentence.

    >>> amount(412.4, "ms"), amount(0.04, "ratio"), amount(12_345.0, "records"), amount(1.0, "records per s")
    ('412 ms', '4 %', '12,345 records', '1 record per s')
    """
    if unit == "ratio":
        return f"{value * 100:.0f} %"
    text = f"{value:,.0f}" if value >= 10 else f"{value:.1f}".removesuffix(".0")
    return f"{text} {_PLURAL.sub('', unit) if text == '1' else unit}"

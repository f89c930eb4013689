"""What a verdict is declared with, and what it finds in a window."""

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
"""The most that one may be certain of a verdict by what it was judged against; `confidence` comes near it with time."""


TOO_YOUNG: Final = "it started a short time ago"
"""A reason to leave a unit out: its start is unlike what comes after it."""


SOURCES: Final = ("group-offsets", "telemetry", "gateway")
BY_OFFSETS, BY_TELEMETRY, BY_GATEWAY = 1, 2, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A number of each unit (a row of a client, or a group, ...) against a bound.

    Attributes:
        metric: its name, for the evidence.
        unit: of the number.
        observed: one each; NaN is not judged.
        bound: one each, or one for all.
        is_upper: bad is above; else below.
        expected: what would be as it should, for the evidence; None is the bound.
        says: a sentence with `{subject}`, `{observed}`, `{bound}` and `{expected}`, and the names of `more`.
        more: further values of each unit for the sentence.
        is_mean: of the window: it is nearer to `expected` where it was so for a part of the window alone.
        share: the part of the window in which it was so, where that is known; None is all of it.
        adds_up: see `verdicts.evidence.ratio_of`.
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

    @property
    def is_known(self) -> Numbers:
        """True where there is a number."""
        return ~np.isnan(self.observed) & ~np.isnan(self.bound)

    @property
    def is_bad(self) -> Numbers:
        """True where it is beyond the bound."""
        return self.observed > self.bound if self.is_upper else self.observed < self.bound

    def lift(self, unit: int) -> float:
        """How far the figure of a unit is from what is expected, in parts of the way to its bound: above 1 is bad."""
        assert self.expected is not None
        observed, expected, bound = (
            float(np.broadcast_to(each, self.observed.shape)[unit])
            for each in (self.observed, self.expected, self.bound)
        )
        return (observed - expected) / max(bound - expected, 1e-9)

    def sides(self, units: Numbers) -> tuple[Numbers, Numbers]:
        """Of some units the figure and the bound, or the reverse where bad is below; NaN where there is no number.

        So a unit is bad where the first is larger than the second.
        """
        observed, bound = (np.broadcast_to(each, self.observed.shape)[units] for each in (self.observed, self.bound))
        return (observed, bound) if self.is_upper else (bound, observed)

    def among(self, before: int, after: int) -> "Threshold":
        """With so many units before and after its own, which are not judged."""

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
            more={name: wider(values) for name, values in self.more.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a verdict finds in a window.

    Attributes:
        subjects: who is judged.
        unit_of: for each unit of the tests the place of its subject, or -1.
        tests: any of them that is bad makes a unit bad, and a bad unit its subject.
        judged: of each unit; None is where a test has a number.
        rows: for each unit its row of clients, where units are that; None takes all rows of the subject.
        concerned: for a subject's place the rows of the clients that it concerns; None goes by `rows`.
        named: for a subject's place the codes of instances that it is about, where these have no rows.
        certainty: the most that `confidence` can be, of each unit or of all.
        is_hint: true for units of which something else than what is wrong may be the reason: of lower severity.
        of: for each unit a number that has to stay the same from window to window: which member, for instance.
        sources: for each unit which of SOURCES it was judged by, as a sum of 1, 2 and 4; None is telemetry.
        principals: for each unit its principal, where it has no instances that say it; else None.
        since_us: for each unit when it began, where that is known better than by the first bad window [us].
        left_out: by the reason, the units that a test does not judge for something that is known of them.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One verdict; its figures are in the rules under its id.

    Attributes:
        id: of the catalogue.
        kind: of its subject.
        side: who has to act.
        find: what a window shows; None where its columns are not there.
        action: one sentence, with `{subject}`, `{client}` and the figures.
        needs: for each library that sends enough: the columns that it is judged by, of which it sends one at least.
        roles: of the clients that it is about.
        explains: verdicts that it may be the cause of.
        by_offsets: samples of groups are enough for it, whatever the library.
        by_traffic: what is enough for it of a client, whatever the library: of `verdicts.witnesses.traffic.KINDS`.
        history: the verdict by whose `history_windows` it needs a history before it can be given; "" for none.
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
    """A finding whose units are the subjects themselves; `more` as `Finding` has it."""
    return Finding(subjects=subjects, tests=tests, unit_of=np.arange(len(subjects)), **more)


def amount(value: float, unit: str) -> str:
    """A number as a sentence has it.

    >>> amount(412.4, "ms"), amount(0.04, "ratio"), amount(12_345.0, "records"), amount(1.25, "per s")
    ('412 ms', '4 %', '12,345 records', '1.2 per s')
    """
    if unit == "ratio":
        return f"{value * 100:.0f} %"
    text = f"{value:,.0f}" if value >= 10 else f"{value:.1f}".removesuffix(".0")
    return f"{text} {unit}"

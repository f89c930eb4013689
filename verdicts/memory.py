"""What the judge remembers from one window to the next."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

import numpy as np

from verdicts.arrow import Numbers, Table, pa
from verdicts.window import Names, Registry

_SETTLES_S: Final = 6 * 3600
"""Of a history: after so long a lasting change has mostly become the expected value [s]."""

_MOST: Final = 0.3
"""Of a window's difference, what a history learns from (log): outliers move it little. So the double of what was before
has become the expected value after some 14 hours."""

_YOUNG: Final = 3
"""Windows of which a history takes everything in."""


class History:
    """The expected value of each key: a running mean of the logarithm, which outliers move little."""

    def __init__(self, keys: Numbers, mean: Numbers, windows: Numbers) -> None:
        self._keys, self._mean, self._windows = keys, mean, windows

    @classmethod
    def empty(cls) -> "History":
        """Of no keys."""
        return cls(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64))

    def expected(self, keys: Numbers, least_windows: float) -> Numbers:
        """For each key the mean; NaN where fewer windows were seen."""
        at, is_known = self._find(keys)
        found = np.full(len(keys), np.nan)
        is_known[is_known] = self._windows[at[is_known]] >= least_windows
        found[is_known] = self._mean[at[is_known]]
        return found

    def learn(self, keys: Numbers, values: Numbers, window_s: int) -> None:
        """Takes values of distinct keys in; NaN is none."""
        keys, values = keys[~np.isnan(values)], values[~np.isnan(values)]
        at, is_known = self._find(keys)
        old = at[is_known]
        step = values[is_known] - self._mean[old]
        is_usual = (self._windows[old] < _YOUNG) | (np.abs(step) < _MOST)
        weight = np.maximum(np.where(is_usual, 1 / (self._windows[old] + 1), 0.0), min(window_s / _SETTLES_S, 1.0))
        self._mean[old] += weight * np.where(is_usual, step, np.clip(step, -_MOST, _MOST))
        self._windows[old] += 1
        self._add(keys[~is_known], values[~is_known])

    def put(self, keys: Numbers, values: Numbers) -> None:
        """Replaces the values of distinct keys; NaN is none."""
        keys, values = keys[~np.isnan(values)], values[~np.isnan(values)]
        at, is_known = self._find(keys)
        self._mean[at[is_known]] = values[is_known]
        self._add(keys[~is_known], values[~is_known])

    def _add(self, keys: Numbers, values: Numbers) -> None:
        if not len(keys):
            return
        every = np.concatenate([self._keys, keys])
        order = np.argsort(every, kind="stable")
        self._keys = every[order]
        self._mean = np.concatenate([self._mean, values])[order]
        self._windows = np.concatenate([self._windows, np.ones(len(keys), np.int64)])[order]

    def _find(self, keys: Numbers) -> tuple[Numbers, Numbers]:
        if not len(self._keys):
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), np.bool_)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return at, self._keys[at] == keys

    def table(self) -> Table:
        """To be kept."""
        return pa.table({"key": self._keys, "mean": self._mean, "windows": self._windows})

    @classmethod
    def of(cls, table: Table) -> "History":
        """As it was kept."""
        return cls(*(table[name].to_numpy().copy() for name in ("key", "mean", "windows")))


INSTANCE_FIELDS: Final = {
    **dict.fromkeys(
        (
            "first_us",
            "last_us",
            "terminated_us",
            "latest_us",
            "client",
            "group",
            "version",
            "dialect",
            "says_when_it_ends",
            "may_say_nothing",
        ),
        np.int64,
    ),
    **dict.fromkeys(("interval_s", "windows", "latency", "failed", "throughput"), np.float64),
}


class Instances:
    """What is known of each client instance, by its number in the registry: 0, or -1 of a code, is nothing.

    Attributes:
        first_us, last_us: receipt of its first push and its last one so far [us].
        terminated_us: receipt of its terminating push.
        latest_us: receipt of its latest push of all, as CLIENTS knows it.
        client, group, version, dialect: its client id's number, its group's (-1 for none), that of its software, and
            its library.
        says_when_it_ends: 1 for a kind of client that sends a terminating push when it is closed.
        may_say_nothing: 1 for a kind of client whose pushes are empty while it does nothing.
        interval_s: of its pushes [s].
        windows, latency, failed, throughput: see `verdicts.families.deploys`.
    """

    def __init__(self, table: Table | None = None) -> None:
        self.arrays: dict[str, Numbers] = {name: np.zeros(0, kind) for name, kind in INSTANCE_FIELDS.items()}
        if table is not None:
            self.arrays = {name: table[name].to_numpy().copy() for name in INSTANCE_FIELDS}

    def __getitem__(self, name: str) -> Numbers:
        return self.arrays[name]

    def grow(self, count: int) -> None:
        """Makes room for all codes below `count`."""
        more = count - len(self.arrays["first_us"])
        if more > 0:
            self.arrays = {name: np.append(each, np.zeros(more, each.dtype)) for name, each in self.arrays.items()}

    def table(self) -> Table:
        """To be kept."""
        return pa.table(self.arrays)


@dataclass(slots=True, kw_only=True)
class Case:
    """A verdict about a subject: one that may come to be, that is open, or that has ended.

    Attributes:
        code: the number of the subject in the registry.
        level_s: rises by the length of a bad window and falls in good ones [s].
        bad_windows: so far.
        first_bad_us, last_bad_us: beginning of the first bad window, end of the last [us].
        good_us: beginning of the first good window since the last bad one.
        judged_us: end of the window that it was judged in last.
        is_open: it has lasted long enough.
        cleared_us: since when it is so no more.
        about: subjects that it concerns, by their kinds: what it may be the cause of.
        of: see `Finding.of`.
    """

    verdict: str
    subject_kind: str
    code: int
    subject: str
    cluster_id: str
    principal: str | None = None
    client_id: str | None = None
    group_id: str | None = None
    node_id: int | None = None
    level_s: float = 0.0
    bad_windows: int = 0
    first_bad_us: int = 0
    last_bad_us: int = 0
    good_us: int | None = None
    judged_us: int = 0
    is_open: bool = False
    cleared_us: int | None = None
    why: str = ""
    excess: float = 1.0
    certainty: float = 1.0
    of: int | None = None
    instances: list[str] = field(default_factory=list)
    instance_count: int = 0
    about: dict[str, list[str]] = field(default_factory=dict)
    evidence: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Memory:
    """What is remembered; of the same windows always the same.

    Attributes:
        registry: names of subjects.
        histories: by name.
        instances: when each was seen.
        cases: those that are not cleared, by their verdict and the number of their subject.
        cleared: those that are.
        facts: small things that verdicts remember, by the verdict's id; what JSON has.
        sent: for `<library> <column>` the end of the last window that it was sent in.
        judged_to_us: end of the last window.
    """

    registry: Registry = field(default_factory=Registry)
    histories: dict[str, History] = field(default_factory=dict)
    instances: Instances = field(default_factory=Instances)
    cases: dict[str, dict[int, Case]] = field(default_factory=dict)
    cleared: list[Case] = field(default_factory=list)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    judged_to_us: int = 0

    def history(self, name: str) -> History:
        """One of them, which is made if need be."""
        return self.histories.setdefault(name, History.empty())

    def all_cases(self) -> list[Case]:
        """Those that are verdicts: open ones and cleared ones."""
        return [case for case in (*self.present_cases(), *self.cleared) if case.is_open]

    def present_cases(self) -> list[Case]:
        """Those that are not cleared, and may not be open yet."""
        return [case for cases in self.cases.values() for case in cases.values()]

    def codes(self, verdict: str) -> Numbers:
        """The numbers of its subjects that have a case."""
        cases = self.cases.get(verdict, {})
        return np.fromiter(cases, np.int64, len(cases))

    def parts(self) -> dict[str, bytes]:
        """To be kept: by the name of each part."""
        rest = {
            "cases": [_plain(case) for case in self.present_cases()],
            "cleared": [_plain(case) for case in self.cleared],
            "facts": self.facts,
            "sent": self.sent,
            "judged_to_us": self.judged_to_us,
        }
        found = {"rest": json.dumps(rest).encode(), "instances": _bytes(self.instances.table())}
        found |= {f"names {each.name}": _bytes(getattr(self.registry, each.name).table()) for each in fields(Registry)}
        return found | {f"history {name}": _bytes(history.table()) for name, history in self.histories.items()}

    @classmethod
    def of(cls, parts: Mapping[str, bytes]) -> "Memory":
        """As it was kept."""
        rest = json.loads(parts["rest"])
        cases: dict[str, dict[int, Case]] = {}
        for case in (Case(**case) for case in rest["cases"]):
            cases.setdefault(case.verdict, {})[case.code] = case
        return cls(
            registry=Registry(
                **{each.name: Names.of(_table(parts[f"names {each.name}"])) for each in fields(Registry)}
            ),
            histories={
                name.removeprefix("history "): History.of(_table(data))
                for name, data in parts.items()
                if name.startswith("history ")
            },
            instances=Instances(_table(parts["instances"])),
            cases=cases,
            cleared=[Case(**case) for case in rest["cleared"]],
            facts=rest["facts"],
            sent=rest["sent"],
            judged_to_us=rest["judged_to_us"],
        )


def _plain(case: Case) -> dict[str, Any]:
    return {each.name: getattr(case, each.name) for each in fields(Case)}


def _bytes(table: Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _table(data: bytes) -> Table:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()

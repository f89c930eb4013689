"""Memory of the judge from one window to the next."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeAlias

import numpy as np

from fleetgauge.verdicts.arrow import Numbers, Table, pa
from fleetgauge.verdicts.history import History
from fleetgauge.verdicts.registry import KINDS, PATHS, Names, Registry
from fleetgauge.verdicts.window import Window, once

FORM: Final = 16
"""Version of `Memory.parts`, to be raised with each change of them: windows of another version are judged again."""

DAY_US: Final = 86_400_000_000
INSTANCES_KEPT_US: Final = 2 * DAY_US
"""Time after its last push when an instance is forgotten [us]; longer than any verdict looks back."""
NAMES_KEPT_US: Final = 8 * DAY_US
"""Time after which an unseen client id, group, version or node is forgotten [us]; a weekly job is kept."""
CLEARED_KEPT_US: Final = 30 * DAY_US
"""Time after which a cleared verdict is dropped [us]."""

LATE: Final = 1.5
"""Longest time to the next push of an instance [times the interval between its pushes]."""

_SUBJECTS: Final = {
    "lag": "instance",
    "lag trend": "group",
    **dict.fromkeys(("queue", "idle", "commit_latency_avg_ms", "commit_share"), "client"),
    **dict.fromkeys(("fetch_latency_avg_ms", "fetch_latency_max_ms"), "client"),
}
"""Kind of subject whose numbers are the keys of a history, by its name; those of paths have keys of their own."""


INSTANCE_FIELDS: Final = {
    **dict.fromkeys(
        (
            "first_us",
            "last_us",
            "terminated_us",
            "latest_us",
            "spare_us",
            "cluster",
            "client",
            "group",
            "version",
            "dialect",
            "says_when_it_ends",
            "has_latency",
            "in_loop",
        ),
        np.int64,
    ),
    **dict.fromkeys(
        (
            "interval_s",
            "pushed_s",
            "judged_s",
            "blind_s",
            "latency",
            "waited",
            "failed",
            "commits",
            "throughput",
            "read",
            "recent_throughput",
            "recent_read",
            "last_read",
            "recent_request_rate_per_s",
            "recent_fetch_rate_per_s",
            "beside_limit_request_rate_per_s",
            "beside_limit_fetch_rate_per_s",
        ),
        np.float64,
    ),
}


_OF_NAMES: Final = ("client", "group", "version")


class Instances:
    """State of each client instance, by its number in the registry; unknown is 0, or -1 for numbers of names.

    Attributes:
        first_us, last_us: receipt of its first push and its last one so far [us].
        terminated_us: receipt of its terminating push.
        latest_us: receipt of its latest push of all, by CLIENTS: its windows may not be judged yet.
        spare_us: end of its latest window in which its application had time to spare, while it was too young to judge.
        cluster, client, group, version, dialect: numbers of its cluster, of its client id, of its group (-1 for none)
            and of its software, and its library.
        says_when_it_ends: 1 for a kind of client that sends a terminating push when it is closed.
        has_latency: 1 once it sent a latency by broker.
        in_loop: 1 for a life of a crash loop.
        interval_s: push interval to expect of it [s]; see `base.presence`.
        pushed_s: push interval in the latest window with a push [s].
        blind_s: time in which its commits took longer and it is unknown by how much of its own [s].
        judged_s, latency, waited, failed, commits, throughput, read, recent_throughput, recent_read: see
            `verdicts.families.deploys`.
        last_read: records per second of its latest window.
        recent_request_rate_per_s, recent_fetch_rate_per_s: mean rate of the last minutes [per s].
        beside_limit_request_rate_per_s, beside_limit_fetch_rate_per_s: mean ratio of these to the limit; see
            `verdicts.families.request_rate`.
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
            for name, each in self.arrays.items():
                self.arrays[name] = np.append(
                    each, np.full(more, -1 if name in ("cluster", *_OF_NAMES) else 0, each.dtype)
                )

    def keep(self, stays: Numbers) -> None:
        """Forgets instances for which `stays` is False, and renumbers the rest."""
        self.arrays = {name: each[stays] for name, each in self.arrays.items()}

    def add(self, other: "Instances") -> None:
        """Adds instances that are all new, with the numbers after those that are known."""
        self.arrays = {name: np.append(each, other.arrays[name]) for name, each in self.arrays.items()}

    def table(self) -> Table:
        """The state of all instances, for storage."""
        return pa.table(self.arrays)


@once
def between_pushes(window: Window, instances: Instances) -> Numbers:
    """Numbers of instances that a window lacks since they push after it: at its end their last push is less than 1.5
    intervals ago. In windows of 60 s these are four of five that push every 300 s.
    """
    due_us = instances["last_us"] + LATE * instances["interval_s"] * 1_000_000
    pushes_later = (due_us > window.end_us) & (instances["terminated_us"] < instances["last_us"])
    pushes_later[window.instance] = False
    return np.flatnonzero(pushes_later)


class Clusters:
    """Times of each cluster, by its number in the registry [us]; 0 before its first window.

    What is judged of a cluster does not depend on others: a window without rows of its clients is none for it.

    Attributes:
        from_us: begin of its first window.
        to_us: end of its latest one.
    """

    def __init__(self, from_us: Sequence[int] = (), to_us: Sequence[int] = ()) -> None:
        self.from_us, self.to_us = np.array(from_us, np.int64), np.array(to_us, np.int64)

    def grow(self, count: int) -> None:
        """Makes room for all numbers below `count`."""
        more = [0] * (count - len(self.from_us))
        self.add(Clusters(more, more))

    def keep(self, stays: Numbers) -> None:
        """Forgets clusters for which `stays` is False, and renumbers the rest."""
        self.from_us, self.to_us = self.from_us[stays], self.to_us[stays]

    def add(self, other: "Clusters") -> None:
        """Adds clusters that are all new, with the numbers after those that are known."""
        self.from_us, self.to_us = np.append(self.from_us, other.from_us), np.append(self.to_us, other.to_us)


@dataclass(slots=True, kw_only=True)
class Case:
    """A verdict about a subject: suspected, open, or cleared.

    Attributes:
        code: the number of the subject in the registry.
        level_s: evidence for it, less that against it; see `verdicts.evidence` [s].
        recent: by measure, the last windows if these are short: end [us], length [s], figure and bound.
        raised: by measure, the evidence that it gave [s].
        lift: of its latest window that was bad by a mean; 0 once one is good. See `verdicts.evidence.raise_by_mean`.
        held_s: evidence of the windows since, which counts once another one is bad [s].
        bad_windows: number of them so far.
        first_bad_us, last_bad_us: beginning of the first bad window, end of the last [us].
        bound: of the figure in its last bad window.
        adds_ms: mean time that it added to each request in the worst of its windows, where that is known [ms].
        adds_longest_ms: longest time that it added to one request, where that is known [ms].
        good_us: beginning of the first good window since the last bad one, or of one that goes on; see
            `verdicts.evidence.recovers`.
        high_s, low_s: level at `good_us`, and the lowest since [s].
        judged_us: end of the last window in which it was judged.
        is_open: it has lasted long enough.
        opened_us: end of the window in which it had lasted long enough [us].
        cleared_us: beginning of the good windows that cleared it.
        is_hint: see `Finding.is_hint`; False from the first window on in which it was not a hint.
        judged_by: SOURCES by which it was bad in its last bad window.
        about: subjects that it concerns, by kind, whose cases it may explain.
        alike: for each broker of its clients the largest part of those as exposed to it that showed the same in one
            window; 1 where this subject is more exposed than they are. Brokers without others as exposed are left out.
        has_load: what it sends or reads is known, so that it may be compared with that of others.
        of: see `Finding.of`; without one, the number of the instance that was worst in its last bad window.
        waits_until_us: time by which that instance pushes again if it still runs [us].
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
    recent: dict[str, list[list[float]]] = field(default_factory=dict)
    raised: dict[str, float] = field(default_factory=dict)
    lift: float = 0.0
    held_s: float = 0.0
    bad_windows: int = 0
    first_bad_us: int = 0
    last_bad_us: int = 0
    bound: float = 0.0
    adds_ms: float | None = None
    adds_longest_ms: float | None = None
    good_us: int | None = None
    high_s: float = 0.0
    low_s: float = 0.0
    judged_us: int = 0
    is_open: bool = False
    opened_us: int | None = None
    cleared_us: int | None = None
    is_hint: bool = False
    why: str = ""
    excess: float = 1.0
    certainty: float = 1.0
    of: int | None = None
    waits_until_us: int = 0
    instances: list[str] = field(default_factory=list)
    instance_count: int = 0
    judged_by: list[str] = field(default_factory=lambda: ["telemetry"])
    about: dict[str, list[str]] = field(default_factory=dict)
    alike: dict[str, float] = field(default_factory=dict)
    has_load: bool = True
    evidence: list[dict[str, Any]] = field(default_factory=list)


BY_NUMBER: Final = "rebalance-storm"
LeftOut: TypeAlias = dict[str, dict[str, list[int]]]

_TIMES: Final = ("judged_from_us", "judged_to_us", "window_s")


@dataclass(slots=True, kw_only=True)
class Memory:
    """State of the judge between windows; the same after the same windows.

    Attributes:
        registry: names of subjects.
        histories: by name.
        clusters: times of each.
        instances: state of each.
        cases: those that are not cleared, by their verdict and the number of their subject.
        cleared: those that are.
        facts: small values that verdicts remember, by the verdict's id; of JSON's types. Their keys begin with a
            cluster (and `registry.SEPARATOR`), but for those of BY_NUMBER, which are numbers of groups.
        sent: end of the last window in which `<library> <column>` was sent [us].
        left_out: by verdict and reason, the numbers of subjects that were not judged in its last window though their
            figures are known.
        judged_from_us, judged_to_us: begin of the first window, end of the last.
        window_s: their length.
    """

    registry: Registry = field(default_factory=Registry)
    histories: dict[str, History] = field(default_factory=dict)
    clusters: Clusters = field(default_factory=Clusters)
    instances: Instances = field(default_factory=Instances)
    cases: dict[str, dict[int, Case]] = field(default_factory=dict)
    cleared: list[Case] = field(default_factory=list)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    left_out: LeftOut = field(default_factory=dict)
    judged_from_us: int = 0
    judged_to_us: int = 0
    window_s: int = 0

    def history(self, name: str) -> History:
        """The history of this name, created at its first use."""
        return self.histories.setdefault(name, History.empty())

    def all_cases(self) -> list[Case]:
        """Cases that are verdicts: the open and the cleared ones."""
        return [case for case in (*self.present_cases(), *self.cleared) if case.is_open]

    def present_cases(self) -> list[Case]:
        """Cases that are not cleared; they need not be open yet."""
        return [case for cases in self.cases.values() for case in cases.values()]

    def codes(self, verdict: str) -> Numbers:
        """Numbers of the verdict's subjects that have a case."""
        cases = self.cases.get(verdict, {})
        return np.fromiter(cases, np.int64, len(cases))

    def is_another_day(self, end_us: int) -> bool:
        """True if a window that ends at `end_us` is the first of a day (UTC): after it `forget` is due."""
        return end_us // DAY_US != self.judged_to_us // DAY_US

    def forget(self) -> None:
        """Drops subjects that were not seen for long, so that clients with a new id at each start do not accumulate."""
        now_us, names, known = self.judged_to_us, self.registry, self.instances
        known.grow(len(names.instances))
        cases = self.present_cases()
        of_kind = {
            kind: np.array([case.code for case in cases if case.subject_kind == kind], np.int64)
            for kind in ("client", "group", "node", "path", "version", "instance")
        }
        of_members = np.array([case.of for case in cases if case.of is not None and case.of >= 0], np.int64)
        is_used = np.maximum(known["last_us"], known["latest_us"]) >= now_us - INSTANCES_KEPT_US
        is_used[of_kind["instance"]] = is_used[of_members] = True
        stays, paths = {"instance": is_used}, of_kind["path"]
        for kind, used in (
            ("client", (of_kind["client"], paths // PATHS, known["client"][is_used])),
            ("group", (of_kind["group"], known["group"][is_used])),
            ("version", (of_kind["version"], known["version"][is_used])),
            ("node", (of_kind["node"], paths % PATHS)),
        ):
            stays[kind] = names.of_kind(kind).seen_us >= now_us - NAMES_KEPT_US
            for codes in used:
                stays[kind][codes[codes >= 0]] = True
        self.keep(stays)
        self.cleared = [case for case in self.cleared if (case.cleared_us or 0) >= now_us - CLEARED_KEPT_US]

    def keep(self, stays: Mapping[str, Numbers]) -> dict[str, Numbers]:
        """Forgets subjects for which `stays` of their kind is False, and renumbers the rest; none may have a case.

        Returns:
            By kind, the new number for each old one, or -1.
        """
        self.instances.keep(stays["instance"])
        new = {kind: self.registry.of_kind(kind).keep(each) for kind, each in stays.items()}
        self.rename(new)
        return new

    def rename(self, new: Mapping[str, Numbers]) -> None:
        """Gives instances, histories, facts and cases the new numbers of their subjects; -1 is forgotten.

        Args:
            new: by kind, the new number for each old one; that of a cluster may be left out if it stays.
        """
        known = self.instances
        for name in ("cluster", *_OF_NAMES):
            if name in new:
                known[name][:] = np.where(known[name] >= 0, np.append(new[name], -1)[known[name]], -1)
        for name, kind in _SUBJECTS.items():
            history = self.history(name)
            history.rename(new[kind][history.keys])
        for name in ("latency", "busy", "above", "longer_ms"):
            of_paths = self.history(name)
            series, node = of_paths.keys // PATHS, new["node"][of_paths.keys % PATHS]
            client = new["client"][series // KINDS]
            key = (client * KINDS + series % KINDS) * PATHS + node
            of_paths.rename(np.where((client >= 0) & (node >= 0), key, -1))
        past = self.facts.get(BY_NUMBER, {})
        instances = new["instance"]
        self.facts[BY_NUMBER] = {
            str(new["group"][int(code)]): [(*rest, _renamed(of_members, instances)) for *rest, of_members in events]
            for code, events in past.items()
            if new["group"][int(code)] >= 0
        }
        self.left_out = {}  # until the next window
        for verdict, cases in self.cases.items():
            for case in cases.values():
                case.code = int(renamed(case.subject_kind, np.array([case.code]), new)[0])
                if case.of is not None and case.of >= 0:  # below are members as brokers know them
                    case.of = int(new["instance"][case.of])
            self.cases[verdict] = {case.code: case for case in cases.values()}

    def parts(self) -> dict[str, bytes]:
        """The memory as parts with names, for storage."""
        rest = {
            "cases": [_plain(case) for case in self.present_cases()],
            "cleared": [_plain(case) for case in self.cleared],
            "facts": self.facts,
            "sent": self.sent,
            "left_out": self.left_out,
            "clusters": [self.clusters.from_us.tolist(), self.clusters.to_us.tolist()],
            **{name: getattr(self, name) for name in _TIMES},
        }
        parts = {"rest": json.dumps(rest).encode(), "instances": _bytes(self.instances.table())}
        parts |= {f"names {each.name}": _bytes(getattr(self.registry, each.name).table()) for each in fields(Registry)}
        return parts | {f"history {name}": _bytes(history.table()) for name, history in self.histories.items()}

    @classmethod
    def of(cls, parts: Mapping[str, bytes]) -> "Memory":
        """Restores a memory from what `parts` returned."""
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
            clusters=Clusters(*rest["clusters"]),
            instances=Instances(_table(parts["instances"])),
            cases=cases,
            cleared=[Case(**case) for case in rest["cleared"]],
            facts=rest["facts"],
            sent=rest["sent"],
            left_out=rest["left_out"],
            **{name: rest[name] for name in _TIMES},
        )


def renamed(kind: str, codes: Numbers, new: Mapping[str, Numbers]) -> Numbers:
    """The new numbers of subjects of a kind; -1 for those that are forgotten."""
    if kind != "path":
        return new[kind][codes]
    client, node = new["client"][codes // PATHS], new["node"][codes % PATHS]
    return np.where((client >= 0) & (node >= 0), client * PATHS + node, -1)


def _renamed(of_instances: Mapping[str, Any], new: Numbers) -> dict[str, Any]:
    """Values by the new numbers of their instances, without those that are forgotten; that of "" stays."""
    now = {name: str(new[int(name)]) if name else "" for name in of_instances}
    return {now[name]: value for name, value in of_instances.items() if now[name] != "-1"}


def _plain(case: Case) -> dict[str, Any]:
    return {each.name: getattr(case, each.name) for each in fields(Case)}


def _bytes(table: Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _table(data: bytes) -> Table:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()

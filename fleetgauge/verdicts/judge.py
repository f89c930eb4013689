"""The judge: turns windows, one after the other in their order, into cases that open and clear.

Evidence for and against a case raises and lowers its level (`verdicts.evidence`); above `for_s` of the rules the
verdict opens, at 0 it clears. So the outcome follows from the windows alone, not from how runs cut them.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np

from fleetgauge.verdicts.arrow import Numbers, Table, pa
from fleetgauge.verdicts.catalogue import VERDICTS, verdicts_of
from fleetgauge.verdicts.declare import BY_TELEMETRY, SOURCES, Finding, Threshold, Verdict, amount, value_of
from fleetgauge.verdicts.evidence import (
    MOST_OF_SHORT,
    beside_noise,
    lower_level,
    may_lower,
    raise_by_mean,
    raise_level,
    ratio_of,
    recovers,
    weight_of,
)
from fleetgauge.verdicts.exposure import Exposure
from fleetgauge.verdicts.memory import LATE, Case, Memory
from fleetgauge.verdicts.notes import note_clients, note_groups, note_traffic, note_window
from fleetgauge.verdicts.paths import paths_of
from fleetgauge.verdicts.registry import Names
from fleetgauge.verdicts.rules import Figures, Rules
from fleetgauge.verdicts.window import DIALECTS, LONGEST_COVERED_S, ROLES, Window, windows
from fleetgauge.verdicts.witnesses.offsets import SCHEMA as GROUP_TRENDS
from fleetgauge.verdicts.witnesses.offsets import Samples
from fleetgauge.verdicts.witnesses.points import Points
from fleetgauge.verdicts.witnesses.traffic import TrafficRows

MOST_INSTANCES: Final = 100
"""Most instances that a row names."""

_UNJUDGED_S: Final = 3600
"""Time after which a verdict that is not judged is cleared [s]."""

_INTERRUPTED_S: Final = 1800
"""The same for a case that is not open yet [s]: a job of ten minutes per hour does not add up to one that lasts."""

_NOTED_US: Final = 3_600_000_000
_LATENCY: Final = "request_latency_avg_ms"

_MOST_EVIDENCE: Final = 6

_MOST_EXCESS: Final = 100.0
"""Most that a figure counts for [times its bound]."""

_OF_BROKERS: Final = tuple(verdict.id for verdict in VERDICTS if verdict.kind == "node")
_BY_BROKERS: Final = frozenset(name for verdict in VERDICTS if verdict.kind == "node" for name in verdict.explains)
"""Verdicts that a broker may be the cause of."""


def judge(
    rows: Table | Iterable[Table],
    clients: Table,
    memory: Memory,
    rules: Rules,
    points: Table | None = None,
    samples: Samples | None = None,
    traffic: TrafficRows | None = None,
) -> Table:
    """Judges further windows, and updates the memory.

    Args:
        rows: `window.COLUMNS` of whole windows, all later than the judged ones: a merged wide row per instance and
            window, and per instance, role, node and window. Or several such tables, in the order of their times:
            another thread reads them, one at a time.
        clients: `notes.client_columns` of CLIENTS.
        memory: of the windows before; it is updated.
        rules: the figures, and an operator's own rules.
        points: `points.COLUMNS` of the points of `rules.metric_names` that were received in these windows; None if
            there are no own rules.
        samples: of consumer groups in these windows; None where there are none.
        traffic: that gateways counted in these windows; None where there is none.

    Returns:
        `offsets.SCHEMA` of these windows.

    Raises:
        RowsError: the rows lack a column.
    """
    note_clients(clients, memory)
    verdicts = verdicts_of(rules)
    named = None if points is None else Points(points, clients)
    groups = [GROUP_TRENDS.empty_table()]
    detached = _taken_out(windows([rows] if isinstance(rows, pa.Table) else rows, memory.registry, samples, traffic))
    # Own rules number instances while a window is judged: then none is read ahead.
    for window in _one_ahead(detached, memory) if named is None else detached:
        window.points = None if named is None else named.within(window.begin_us, window.end_us)
        groups.append(_judge_window(window, verdicts, memory, rules))
        del window  # before the next one is read
    return pa.concat_tables(groups)


def _taken_out(attached: Iterable[Window]) -> Iterator[Window]:
    """Windows with the columns that verdicts read, without their table."""
    for window in attached:
        paths_of(window)
        window.detach()
        yield window


def _one_ahead(detached: Iterator[Window], memory: Memory) -> Iterator[Window]:
    """Windows; a thread reads the next one while one is judged.

    Reading only adds names to the registry. If the memory forgets names after a window, which renumbers the others, the
    next one is read after that.
    """
    with ThreadPoolExecutor(1, "next-window") as reader:
        ahead = reader.submit(next, detached, None)
        while (window := ahead.result()) is not None:
            is_alone = memory.is_another_day(window.end_us)
            if not is_alone:
                ahead = reader.submit(next, detached, None)
            yield window
            del window
            if is_alone:
                ahead = reader.submit(next, detached, None)


def _judge_window(window: Window, verdicts: Sequence[Verdict], memory: Memory, rules: Rules) -> Table:
    """Judges one window; returns the trends of its groups."""
    note_window(window, memory)
    trends = note_groups(window, memory)
    note_traffic(window, memory)
    for verdict in verdicts if len(window) else [each for each in verdicts if _is_given(each, window)]:
        figures = rules[verdict.id]
        finding = verdict.find(window, memory, figures) if figures.is_enabled else None
        if finding is not None and len(finding.subjects):
            _Round(verdict, finding, window, memory, figures).take()
    _clear_unjudged(window, memory)
    _note_sent(window, memory)
    begun_us = memory.clusters.from_us[window.clusters]
    memory.clusters.from_us[window.clusters] = np.where(begun_us > 0, begun_us, window.begin_us)
    memory.clusters.to_us[window.clusters] = window.end_us
    forgets = memory.is_another_day(window.end_us)
    memory.judged_to_us, memory.window_s = window.end_us, window.length_s
    memory.judged_from_us = memory.judged_from_us or window.begin_us
    if forgets:
        memory.forget()
    return trends


def _clear_unjudged(window: Window, memory: Memory) -> None:
    """Clears cases that were not judged for long, if the window has anything of theirs: unknown is not over."""
    left = (case for case in memory.present_cases() if window.end_us - case.judged_us > _allowed_us(case))
    if not (cases := list(left)):
        return
    names = memory.registry
    heard = {"telemetry": _clusters(names.clusters, window.clusters)}
    if window.offsets is not None:
        heard["group-offsets"] = _clusters(names.groups, window.offsets.codes)
    if window.traffic is not None:
        heard["gateway"] = _clusters(names.clients, window.traffic.client)
    for case in cases:
        if any(case.cluster_id in heard.get(source, ()) for source in ("telemetry", *case.judged_by)):
            _clear(case, case.good_us or case.judged_us, memory)


def _allowed_us(case: Case) -> int:
    return 1_000_000 * (_UNJUDGED_S if case.is_open else _INTERRUPTED_S)


def _clusters(names: Names, codes: Numbers) -> set[str]:
    """The clusters of numbers."""
    return {names.parts(code)[0] for code in codes.tolist()}


def _is_given(verdict: Verdict, window: Window) -> bool:
    """True if the verdict is possible in a window without rows of clients."""
    return (verdict.by_offsets and window.offsets is not None) or (
        bool(verdict.by_traffic) and window.traffic is not None
    )


def _note_sent(window: Window, memory: Memory) -> None:
    """Notes the columns that each library sends, for coverage: once an hour, latencies by broker by role and each time.

    Latencies are noted by instance, too: they depend on the version and the settings.
    """
    memory.instances["has_latency"][window.instance[window.link_count > 0]] = 1
    for number, dialect in enumerate(DIALECTS):
        by_role = [f"{dialect} {role} {_LATENCY}" for role in _roles_of_links(window, number)]
        memory.sent |= dict.fromkeys(by_role, window.end_us)
        for column in {column for verdict in VERDICTS for column in verdict.needs.get(dialect, ())}:
            key = f"{dialect} {column}"
            if window.end_us - memory.sent.get(key, 0) < _NOTED_US:
                continue
            values = window.rows.number(column)[window.dialect == number]
            if not np.isnan(values).all() or (column == _LATENCY and by_role):
                memory.sent[key] = window.end_us


def _roles_of_links(window: Window, dialect: int) -> list[str]:
    """The roles of a library's clients that sent latencies by broker: consumers of Java before 4.0 do not."""
    kinds = paths_of(window).kind
    return [role for place, role in enumerate(ROLES) if (kinds == dialect + 1 + place * 4).any()]


def _clear(case: Case, at_us: int, memory: Memory) -> None:
    del memory.cases[case.verdict][case.code]
    if case.is_open:
        case.cleared_us = at_us
        memory.cleared.append(case)


class _Round:
    """The judgement of one window by one verdict."""

    def __init__(self, verdict: Verdict, finding: Finding, window: Window, memory: Memory, figures: Figures) -> None:
        self._verdict, self._finding, self._window = verdict, finding, window
        self._memory, self._figures = memory, figures
        self._cases = memory.cases.setdefault(verdict.id, {})
        self._exposure: Exposure | None = None

    def take(self) -> None:
        """Takes the evidence of the window into the cases of the subjects that are judged."""
        finding = self._finding
        judged = np.logical_or.reduce([test.is_known for test in finding.tests])
        if finding.judged is not None:
            judged &= finding.judged
        judged &= finding.unit_of >= 0
        bad = judged & np.logical_or.reduce([test.is_bad for test in finding.tests])
        if bad.any() and self._verdict.id in _BY_BROKERS and any(map(self._memory.cases.get, _OF_BROKERS)):
            self._exposure = Exposure(self._window, finding, judged, bad)
        if finding.left_out:
            self._memory.left_out[self._verdict.id] = _left_out(finding, judged, bad)
        if not self._cases and not bad.any():
            return
        has_case = np.isin(finding.subjects.codes, self._memory.codes(self._verdict.id))
        units = np.flatnonzero(bad | (judged & has_case[finding.unit_of]))
        units = units[np.argsort(finding.unit_of[units], kind="stable")]
        places, begins = np.unique(finding.unit_of[units], return_index=True)
        sides = np.stack([np.stack(test.sides(units)) for test in finding.tests])
        excess = _excess(sides)
        ends = np.append(begins[1:], len(units))
        for place, begin, end in zip(places.tolist(), begins.tolist(), ends.tolist(), strict=False):
            self._meet(place, units[begin:end], sides[:, :, begin:end], excess[:, begin:end])

    def _meet(self, place: int, units: Numbers, sides: Numbers, excess: Numbers) -> None:
        """Raises or lowers the case of a subject, which is created if some of its units are bad.

        Args:
            place: of the subject.
            units: of the subject.
            sides: see `Threshold.sides`, by test and unit.
            excess: see `_excess`, by test and unit.
        """
        finding, code = self._finding, int(self._finding.subjects.codes[place])
        bad = (excess > 1.0).any(axis=0)
        is_bad = bool(bad.any())
        case = self._cases.get(code)
        if case is not None and not case.is_open and finding.disproved is not None and finding.disproved[place]:
            _clear(case, self._window.begin_us, self._memory)
            return
        if case is not None and finding.of is not None:
            if is_bad and int(finding.of[self._worst(units, excess)[1]]) != case.of:
                if self._is_unheard(case, units) and min(float(excess.max()), MOST_OF_SHORT) <= case.excess:
                    return
                _clear(case, self._window.begin_us, self._memory)  # another member: begins again
                case = None
            elif not is_bad:  # figures of the others prove nothing about this member
                own = finding.of[units] == case.of
                units, sides, excess = units[own], sides[:, :, own], excess[:, own]
        if not is_bad and (case is None or not len(units) or self._waits(case, units)):
            return
        case = case or self._new_case(code)
        covered_s = self._covered_s(case)
        ratios = self._ratios(case, units, sides, excess, covered_s)
        measure = max(ratios, key=lambda each: ratios[each], default="")
        lift = self._lift(case, measure, units, excess)
        if ratios.get(measure, 0.0) > 1.0:
            self._raise(case, place, units[bad] if is_bad else units, measure, ratios[measure], lift, covered_s)
            if is_bad:
                test, unit = self._worst(units, excess)
                self._note_worst(case, unit)
                self._describe(case, place, units[bad], unit, test)
        elif ratios and may_lower(case, ratios):
            self._lower(case, measure, ratios[measure], lift, covered_s)

    def _lift(self, case: Case, measure: str, units: Numbers, excess: Numbers) -> float | None:
        """`Threshold.lift` of the worst unit by a mean; None for another measure, none at all, or an open case."""
        if case.is_open or not measure or not self._finding.tests[int(measure)].is_mean:
            return None
        return self._finding.tests[int(measure)].lift(int(units[np.argmax(excess[int(measure)])]))

    def _note_worst(self, case: Case, unit: int) -> None:
        """Notes `Finding.of` of a unit, or else its instance and the time by which it pushes again."""
        finding, window, known = self._finding, self._window, self._memory.instances
        row = -1 if finding.rows is None else int(finding.rows[unit])
        if finding.of is not None:
            case.of = int(finding.of[unit])
        elif row >= 0:
            case.of = int(window.instance[row])
            apart_s = max(float(known["interval_s"][case.of]), float(window.covered_s[row]) - window.length_s)
            case.waits_until_us = int(known["last_us"][case.of] + LATE * apart_s * 1_000_000)

    def _waits(self, case: Case, units: Numbers) -> bool:
        """True if the next push of the instance that was bad last is not due yet: until then its state is unknown.

        With windows of 30 s and pushes every 60 s, one of two instances of a client is in each: if one is bad and the
        other good, every other window has good ones alone.
        """
        finding, window = self._finding, self._window
        if finding.rows is None or window.end_us >= case.waits_until_us:
            return False
        rows = finding.rows[units]
        return case.of not in window.instance[rows[rows >= 0]]

    def _is_unheard(self, case: Case, units: Numbers) -> bool:
        """True if the member of a case judged within five minutes is not in the window: it pushes more rarely, or a
        push was lost, so that it may be as it was.
        """
        assert self._finding.of is not None
        since_us = self._window.end_us - case.judged_us
        return since_us <= LONGEST_COVERED_S * 1_000_000 and case.of not in self._finding.of[units]

    def _covered_s(self, case: Case) -> float:
        """Time that the evidence of this window covers: since the window before [s]."""
        length_s = float(self._window.length_s)
        if not case.judged_us:
            return length_s
        since_s = (self._window.end_us - case.judged_us) / 1_000_000  # 0 after a window without rows of clients
        return max(length_s, min(since_s, LONGEST_COVERED_S))

    def _ratios(
        self, case: Case, units: Numbers, sides: Numbers, excess: Numbers, covered_s: float
    ) -> dict[str, float]:
        """Ratio of the worst unit, for each measure that is bad or raised the case before."""
        window, ratios = self._window, {}
        for number, worst in enumerate(excess.argmax(axis=1).tolist()):
            most, measure = excess[number, worst], str(number)
            if most > 1.0 or (most > 0.0 and measure in case.raised):
                above, below = sides[number, :, worst].tolist()
                test = self._finding.tests[number]
                ratio = ratio_of(
                    case, measure, above, below, window.end_us, covered_s, self._figures["for_s"], adds_up=test.adds_up
                )
                ratios[measure] = ratio if test.noise is None else beside_noise(ratio, float(test.noise[units[worst]]))
        return ratios

    def _new_case(self, code: int) -> Case:
        identity = self._memory.registry.identity(self._verdict.kind, code)
        case = Case(verdict=self._verdict.id, subject_kind=self._verdict.kind, code=code, **identity)
        case.first_bad_us, case.is_hint = self._window.begin_us, True
        self._cases[code] = case
        return case

    def _raise(
        self, case: Case, place: int, units: Numbers, measure: str, ratio: float, lift: float | None, covered_s: float
    ) -> None:
        window, finding, for_s = self._window, self._finding, self._figures["for_s"]
        test = finding.tests[int(measure)]
        if lift is None:
            share = 1.0 if test.share is None else float(test.share[units].max())
            raise_level(case, measure, share * weight_of(ratio) * covered_s, covered_s, for_s)
        else:
            raise_by_mean(case, measure, lift, ratio, covered_s, for_s)
        case.bad_windows += 1
        case.judged_us = window.end_us
        if not recovers(case):
            case.last_bad_us, case.good_us = window.end_us, None
        self._open_if_due(case)
        case.excess = min(ratio, _MOST_EXCESS)
        if self._exposure is not None:
            self._exposure.note(place, case, self._memory)
        if finding.since_us is not None:
            case.first_bad_us = min(case.first_bad_us, int(finding.since_us[units].min()))

    def _open_if_due(self, case: Case) -> None:
        """Opens a case whose level is above `for_s`.

        Not at `for_s`: the first bad window may have been bad for only a moment, so that two windows of 300 s need not
        be 600 s, nor one 300 s. With a `for_s` of 600 and windows of 60 s it opens after 11 of them.
        """
        if not case.is_open and case.level_s > self._figures["for_s"]:
            case.is_open, case.opened_us = True, self._window.end_us

    def _worst(self, units: Numbers, excess: Numbers) -> tuple[Threshold, int]:
        """The test and the unit farthest beyond its bound; of several equally far ones the most extreme."""
        at = int(np.argmax(excess.max(axis=1)))
        test, units = self._finding.tests[at], units[excess[at] == excess[at].max()]
        if len(units) == 1:
            return test, int(units[0])
        expected = np.broadcast_to(test.bound if test.expected is None else test.expected, test.observed.shape)
        observed = test.observed[units] if test.is_upper else -test.observed[units]
        return test, int(units[np.lexsort((expected[units], observed))[-1]])

    def _describe(self, case: Case, place: int, units: Numbers, unit: int, test: Threshold) -> None:
        finding, window = self._finding, self._window
        case.certainty = float(value_of(finding.certainty, unit))
        case.is_hint = case.is_hint and bool(value_of(finding.is_hint, unit))
        observed, bound = float(test.observed[unit]), float(value_of(test.bound, unit))
        expected = bound if test.expected is None else float(test.expected[unit])
        case.bound = bound
        if test.metric.endswith("latency_avg_ms"):
            _note_added(case, observed - expected, observed - expected)
        elif "ms" in test.more:
            _note_added(case, *(float(test.more[name][unit]) for name in ("ms", "longest_ms")))
        sources = BY_TELEMETRY if finding.sources is None else int(np.bitwise_or.reduce(finding.sources[units]))
        case.judged_by = [name for number, name in enumerate(SOURCES) if sources >> number & 1]
        if case.principal is None and finding.principals is not None:
            case.principal = finding.principals[unit]
        self._name(case, self._instances(place, units))
        case.why = test.says.format(
            subject=case.subject,
            client=case.client_id,
            observed=amount(observed, test.unit),
            bound=amount(bound, test.unit),
            expected=amount(expected, test.unit),
            **{name: value[unit] for name, value in test.more.items()},
        )
        case.evidence.append(
            {
                "metric": test.metric,
                "window_start": window.begin_us,
                "window_s": window.length_s,
                "observed": observed,
                "expected": expected,
                "unit": test.unit,
                "samples": len(units),
            }
        )
        if len(case.evidence) > _MOST_EVIDENCE:  # the first ones and the latest
            del case.evidence[_MOST_EVIDENCE // 2]

    def _instances(self, place: int, units: Numbers) -> Numbers:
        """The instances that a subject with these bad units concerns, by their numbers."""
        finding = self._finding
        if finding.named is not None:
            return finding.named(place)
        if finding.concerned is not None:
            rows = finding.concerned(place)
        elif finding.rows is not None:
            rows = finding.rows[units]
            rows = rows[rows >= 0]
        else:
            rows = finding.subjects.rows_of(place)
        return np.unique(self._window.instance[rows])

    def _name(self, case: Case, instances: Numbers) -> None:
        """Notes the instances that a case concerns, with their clients and groups."""
        registry = self._memory.registry
        case.instance_count = max(case.instance_count, len(instances))
        parts = [registry.instances.parts(code) for code in instances.tolist()]
        case.instances = sorted(part[2] for part in parts)[:MOST_INSTANCES]
        if case.principal is None and case.subject_kind not in ("node", "version"):
            case.principal = min((part[1] for part in parts), default=None)
        known = self._memory.instances
        ids, groups = (set(known[name][instances].tolist()) for name in ("client", "group"))
        clients = {registry.clients.parts(code)[1] for code in ids}
        named = {registry.groups.parts(code)[1] for code in groups if code >= 0}
        case.about["client"] = sorted(clients.union(case.about.get("client", ())))
        case.about["group"] = sorted(named.union(case.about.get("group", ())))
        if case.subject_kind == "client":  # also of one without instances here
            case.about["client"] = sorted({case.subject, *case.about["client"]})
        if case.subject_kind == "group":
            case.about["group"] = sorted({case.subject, *case.about["group"]})
        if case.client_id is None and case.subject_kind == "instance":
            case.client_id = next(iter(clients), None)
        if case.group_id is None and len(case.about["group"]) == 1:
            case.group_id = case.about["group"][0]

    def _lower(self, case: Case, measure: str, ratio: float, lift: float | None, covered_s: float) -> None:
        window, for_s = self._window, self._figures["for_s"]
        if case.lift and lift is not None and lift <= 1.0:  # the case may have ended in this window
            covered_s *= 1.0 - raise_by_mean(case, measure, lift, ratio, covered_s, for_s)
            self._open_if_due(case)
        if case.good_us is None:
            case.good_us, case.high_s, case.low_s = window.begin_us, case.level_s, case.level_s
        lower_level(case, ratio, covered_s, for_s)
        case.judged_us = window.end_us
        if case.level_s <= 0:
            _clear(case, case.good_us, self._memory)


def _note_added(case: Case, added_ms: float, longest_ms: float) -> None:
    """Notes what a case adds to requests: the most of its windows, as its last one may be bad for a moment only."""
    case.adds_ms = max(case.adds_ms or 0.0, added_ms)
    case.adds_longest_ms = max(case.adds_longest_ms or 0.0, longest_ms)


def _left_out(finding: Finding, judged: Numbers, bad: Numbers) -> dict[str, list[int]]:
    """Subjects by reason: those without a bad unit, and without a judged unit that the reason does not apply to."""
    units, codes, left_out = finding.unit_of, finding.subjects.codes, {}
    for reason, mask in finding.left_out.items():
        fully = np.bincount(units[bad | (judged & ~mask)], minlength=len(codes)) > 0
        has = np.bincount(units[mask & (units >= 0)], minlength=len(codes)) > 0
        if (has & ~fully).any():
            left_out[reason] = codes[has & ~fully].tolist()
    return left_out


def _excess(sides: Numbers) -> Numbers:
    """Ratio of each figure to its bound, 100 at most; 0 where there is no number, near 0 where it is not above 0."""
    above, below = sides[:, 0], sides[:, 1]
    times = np.clip(above / np.maximum(below, 1e-9), 1e-9, _MOST_EXCESS)
    return np.nan_to_num(times)

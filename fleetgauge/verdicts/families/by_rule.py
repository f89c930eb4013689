"""Verdicts by rules of an operator's own: a metric beyond a bound for some time, or a sum that grows by too much.

Rules are checked push by push, not by windows: a value counts from its receipt, and has to be beyond the bound for as
long as the rule requires. Little is remembered from window to window: the time since which an instance is beyond, or
the growth of its sums.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np

from fleetgauge.verdicts.arrow import Numbers, is_valid, pa
from fleetgauge.verdicts.declare import Finding, Threshold, Verdict
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.rules import Figures
from fleetgauge.verdicts.user_rules import Increase, Limit, UserRule
from fleetgauge.verdicts.window import DIALECTS, Subjects, Window
from fleetgauge.verdicts.witnesses.points import Points

_LEAST_PATIENCE_US: Final = 60_000_000
_PATIENT_INTERVALS: Final = 3
"""A metric is unknown after this many push intervals without a value, and at least a minute."""

_MOST_STEPS: Final = 256
"""Most growths of an instance that are remembered; beyond it the two oldest are merged."""

_LARGEST: Final = 1e100
"""Larger values are not measurements, nor is infinity."""


def verdict_of(rule: UserRule) -> Verdict:
    """The verdict that a rule declares: its id is the rule's name, its subject an instance."""
    return Verdict(
        id=rule.name,
        kind="instance",
        side="unknown",
        find=partial(_find, rule),
        action=f"Look into {{client}}: its limit is in [rules.{rule.name}] of the rule file.",
        needs=dict.fromkeys(DIALECTS, rule.metrics),
        roles=("producer", "consumer", "share-consumer", "admin", "streams"),
    )


@dataclass(slots=True)
class _Judged:
    """Result of a rule for one instance in a window.

    Attributes:
        value: the one furthest beyond if it is bad, else the last.
        row: of its point.
        is_bad: True if it was beyond for long enough.
        is_known: False while it is beyond, and not yet for long enough.
    """

    value: float
    row: int
    is_bad: bool
    is_known: bool = True


def _find(rule: UserRule, window: Window, memory: Memory, figures: Figures) -> Finding | None:
    points = window.points
    if points is None:
        return None
    column = "delta" if isinstance(rule.condition, Increase) else "value"
    values, metric = points.number(column), points.place_of("metric_name", rule.metrics)
    # Infinity and values near it do not count; NaN compares as False.
    _note_sent(metric >= 0, points, window, memory)
    rows = np.flatnonzero((metric >= 0) & points.of_clients(rule.match) & (np.abs(values) <= _LARGEST))
    remembered = memory.facts.setdefault(rule.name, {})
    judge = _ByIncrease if isinstance(rule.condition, Increase) else _ByLimit
    judged = judge(rule, points, values, remembered).judge(rows, window.end_us)
    if not len(rows):
        return None
    row, observed, is_known, texts = _judged_of_each(rule, points, rows, values, judged)
    registry = memory.registry.instances
    codes = registry.codes(*points.names_of(row), at_us=window.end_us)
    memory.instances.grow(len(registry))
    order = np.argsort(codes)
    codes, observed, is_known, texts, of = (each[order] for each in (codes, observed, is_known, texts, metric[row]))
    at = np.searchsorted(codes, window.instance)
    is_found = np.isin(window.instance, codes)
    return Finding(
        subjects=Subjects("instance", codes, np.where(is_found, at, -1)),
        unit_of=np.arange(len(codes)),
        judged=is_known,
        named=lambda place: codes[place : place + 1],
        tests=[
            Threshold(
                metric=name,
                unit="",
                observed=np.where(of == number, observed, np.nan),
                bound=rule.threshold,
                is_upper=not isinstance(rule.condition, Limit) or rule.condition.is_upper,
                says="{text}",
                more={"text": texts},
            )
            for number, name in enumerate(rule.metrics)
        ],
    )


def _judged_of_each(
    rule: UserRule, points: Points, rows: Numbers, values: Numbers, judged: Mapping[int, _Judged]
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """For each instance the row, the value, True if it is known, and the sentence if it is bad."""
    instances, row = _last_of_each(points, rows)  # instances that were not judged are good
    observed = np.zeros(len(row)) if isinstance(rule.condition, Increase) else values[row]
    is_known: Numbers = np.ones(len(row), np.bool_)
    texts: Numbers = np.full(len(row), "", np.object_)
    for place, each in zip(np.searchsorted(instances, list(judged)).tolist(), judged.values(), strict=True):
        row[place], observed[place], is_known[place] = each.row, each.value, each.is_known
        texts[place] = _text(rule, points, each) if each.is_bad else ""
    return row, observed, is_known, texts


def _note_sent(is_read: Numbers, points: Points, window: Window, memory: Memory) -> None:
    """Notes the libraries that send the metrics of rules, for coverage."""
    names, dialects = points.texts("metric_name"), points.dialects()
    for name, dialect in set(
        zip(*(each.filter(pa.array(is_read)).to_pylist() for each in (names, dialects)), strict=True)
    ):
        memory.sent[f"{dialect} {name}"] = window.end_us


@dataclass(slots=True)
class _ByLimit:
    """Checks values against a bound; `remembered` has, by an instance's key, since when they are beyond it, and until
    when that is known [us].
    """

    rule: UserRule
    points: Points
    values: Numbers
    remembered: dict[str, Any]

    def judge(self, rows: Numbers, end_us: int) -> dict[int, _Judged]:
        """Results for the instances that were or are beyond the bound."""
        condition = self.rule.condition
        assert isinstance(condition, Limit)
        worst, bound = (self.values, condition.bound) if condition.is_upper else (-self.values, -condition.bound)
        beyond = self.points.instance[rows[worst[rows] > bound]]
        judged = {}
        for instance, own in _by_instance(self.points, rows, beyond, self.remembered):
            pushes = [int(push[np.argmax(worst[push])]) for push in _by_push(self.points, own)]
            judged[instance] = self._judge(condition, self.points.key(instance), pushes)
        for name in [name for name, (_, until_us) in self.remembered.items() if until_us < end_us]:
            del self.remembered[name]
        return judged

    def _judge(self, condition: Limit, key: str, rows: list[int]) -> _Judged:
        since_us, until_us = self.remembered.pop(key, (None, 0))
        bad: _Judged | None = None
        for row in rows:
            at_us, value = int(self.points.at_us[row]), float(self.values[row])
            if not condition.is_beyond(value):
                since_us = None
                continue
            if since_us is None or at_us > until_us:
                since_us = at_us
            until_us = at_us + _patience_us(self.points, row)
            if not condition.for_us or at_us - since_us > condition.for_us:
                is_further = bad is None or (value > bad.value if condition.is_upper else value < bad.value)
                bad = _Judged(value, row, is_bad=True) if is_further else bad
        if since_us is not None:
            self.remembered[key] = since_us, until_us
        row = rows[-1]
        return bad or _Judged(float(self.values[row]), row, is_bad=False, is_known=since_us is None)


@dataclass(slots=True)
class _ByIncrease:
    """Checks the growth of sums; `remembered` has, by an instance's key, the times [us] and amounts of growth."""

    rule: UserRule
    points: Points
    values: Numbers
    remembered: dict[str, Any]
    _counts: Numbers = field(init=False)

    def judge(self, rows: Numbers, end_us: int) -> dict[int, _Judged]:
        """Results for the instances whose sums grew in this window or within `within_us` before."""
        condition = self.rule.condition
        assert isinstance(condition, Increase)
        self._counts = self._counted(rows, condition)
        growing = self.points.instance[rows[self._counts[rows] > 0]]
        judged = {
            instance: self._judge(condition, self.points.key(instance), _by_push(self.points, own))
            for instance, own in _by_instance(self.points, rows, growing, self.remembered)
        }
        for name in list(self.remembered):
            self.remembered[name] = [step for step in self.remembered[name] if step[0] > end_us - condition.within_us]
            if not self.remembered[name]:
                del self.remembered[name]
        return judged

    def _counted(self, rows: Numbers, condition: Increase) -> Numbers:
        """Growth that each point counts for: 0 for a first delta that covers more than `within`, since it may have
        grown before, and for a point of a topic whose push has a total, too.
        """
        points = self.points
        counts = np.where(self.values > 0, self.values, 0.0)
        covers_us = (points.number("time_unix_nano") - points.number("start_time_unix_nano")) / 1_000
        counts[(points.number("before_subscription") == 1) & (covers_us > condition.within_us)] = 0.0
        of_topic = is_valid(points.texts("topic"))
        metric = points.place_of("metric_name", self.rule.metrics)
        keys = np.stack([points.instance, points.at_us, metric], axis=1)
        totals = {tuple(key) for key in keys[rows[~of_topic[rows]]].tolist()} if of_topic[rows].any() else set()
        for row in rows[of_topic[rows]].tolist():
            if tuple(keys[row].tolist()) in totals:
                counts[row] = 0.0
        return counts

    def _judge(self, condition: Increase, key: str, pushes: list[Numbers]) -> _Judged:
        steps = self.remembered.pop(key, [])
        most = _Judged(-1.0, int(pushes[0][0]), is_bad=False)
        for push in pushes:
            at_us, growth = int(self.points.at_us[push[0]]), float(self._counts[push].sum())
            steps = [step for step in steps if step[0] > at_us - condition.within_us]
            if growth > 0:
                steps.append([at_us, growth])
            if len(steps) > _MOST_STEPS:
                steps[:2] = [[steps[1][0], steps[0][1] + steps[1][1]]]
            total = sum(step[1] for step in steps)
            if total > most.value:
                row = int(push[np.argmax(self._counts[push])])
                most = _Judged(total, row, is_bad=total > condition.bound)
        if steps:
            self.remembered[key] = steps
        return most


def _last_of_each(points: Points, rows: Numbers) -> tuple[Numbers, Numbers]:
    """The instances of some rows, and the row of each that was received last."""
    instances, from_behind = np.unique(points.instance[rows][::-1], return_index=True)
    return instances, rows[::-1][from_behind]


def _by_instance(
    points: Points, rows: Numbers, wanted: Numbers, remembered: Mapping[str, Any]
) -> Iterator[tuple[int, Numbers]]:
    """The rows of each instance that is wanted or remembered, in the order of their receipt."""
    wanted = np.union1d(wanted, points.numbers(remembered))
    own = rows[np.isin(points.instance[rows], wanted)]
    order = own[np.argsort(points.instance[own], kind="stable")]
    instances, begins = np.unique(points.instance[order], return_index=True)
    yield from zip(instances.tolist(), np.split(order, begins[1:]), strict=False)


def _by_push(points: Points, rows: Numbers) -> list[Numbers]:
    """The rows of each push of an instance; pushes differ in their times of receipt."""
    return np.split(rows, np.flatnonzero(np.diff(points.at_us[rows])) + 1)


def _patience_us(points: Points, row: int) -> int:
    interval_ms = points.value("push_interval_ms", row) or 0
    return max(_LEAST_PATIENCE_US, _PATIENT_INTERVALS * interval_ms * 1_000)


def _text(rule: UserRule, points: Points, judged: _Judged) -> str:
    """Sentence of a rule, with the value and the client's columns filled in."""
    known = {
        **points.identity(int(points.instance[judged.row])),
        "rule": rule.name,
        "severity": rule.severity,
        "value": judged.value,
        "threshold": rule.threshold,
        **{name: points.value(name, judged.row) for name in ("metric_name", "node_id", "topic")},
    }
    template = rule.text or _own_text(rule)
    return re.sub(r"\{(\w+)\}", lambda placeholder: _shown(known.get(placeholder[1])), template)


def _own_text(rule: UserRule) -> str:
    if isinstance(rule.condition, Increase):
        within_s = _shown(rule.condition.within_us / 1_000_000)
        return f"{{metric_name}} of {{client_id}} grew by {{value}} within {within_s} s"
    side = "above" if rule.condition.is_upper else "below"
    return f"{{metric_name}} of {{client_id}} is {{value}}, {side} {{threshold}}"


def _shown(value: Any) -> str:
    match value:
        case None:
            return "unknown"
        case float():
            return f"{value:,.10g}"
    return str(value)

"""The watch of one client: pushes and the passing of time in, alerts that open and clear out. Knows nothing of Spark.

All times are those of receipt, by the brokers' clocks. A push moves nothing but its own client's state; what has not
come is judged only once time is known to have passed (`advance`, by Spark's watermark), so that a push which is merely
late opens no alert of silence.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from fleet.dialects import library_of, says_when_it_ends
from fleet.silver.intervals import DEFAULT_PUSH_INTERVAL_MS, SILENT_AT_LEAST_US, SILENT_INTERVALS
from fleet.watch.alert import Cleared, Finding, cleared, opened
from fleet.watch.identity import SAID_BY_PAYLOADS, Push, Sample
from fleet.watch.rules import Increase, Rule, Silence, Threshold

MAX_CONNECTIONS: Final = 8
"""Connections of a client that are remembered, the latest."""

MAX_STEPS: Final = 256
"""Growths that a window holds; the oldest are taken together where there are more."""

_INTERVAL_MS: Final = (100, 3_600_000)
"""Intervals that Kafka allows [ms]: what a record says beyond them is not believed."""


@dataclass(slots=True, kw_only=True)
class RuleState:
    """What is remembered of one rule.

    Attributes:
        kind: of the rule's condition; a rule of the same name and another kind has nothing to do with it.
        since_us: since when the condition holds without an end; None while it does not.
        sampled_us: when its metric came last.
        alert: the open one.
        steps: [time, growth] within the window.
        totals: the last cumulative value of each metric.
    """

    kind: str
    since_us: int | None = None
    sampled_us: int | None = None
    alert: dict[str, Any] | None = None
    steps: list[list[float]] = field(default_factory=list)
    totals: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class ClientState:
    """What is remembered of one client; its size is bounded by the number of rules.

    Attributes:
        last: [time of receipt, push id] of the latest push: what is not after it is a repeat, or too late to count.
        identity: what is known of it.
        connections: [address, port, broker] that it pushed by, the latest last.
        is_ended: it has said so.
        rules: by the name of the rule.
        timer_ms: the earliest timer that was set for it and has not run out.
    """

    last: list[Any] = field(default_factory=list)
    identity: dict[str, Any] = field(default_factory=dict)
    connections: list[list[Any]] = field(default_factory=list)
    is_ended: bool = False
    rules: dict[str, RuleState] = field(default_factory=dict)
    timer_ms: int | None = None


def dump_state(state: ClientState) -> str:
    """A state as text, as Spark keeps it."""
    return json.dumps(asdict(state))


def load_state(text: str) -> ClientState:
    """The state of `dump_state`; keys of a newer release are passed over."""
    found = json.loads(text)
    rules = {name: RuleState(**_known(RuleState, each)) for name, each in found.pop("rules").items()}
    return ClientState(**_known(ClientState, found), rules=rules)


def _known(kind: Any, found: Mapping[str, Any]) -> dict[str, Any]:
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in found.items() if name in names}


class ClientWatch:
    """The rules at work on one client.

    Args:
        rules: all there are.
        forget_after_us: how long a client that says nothing is remembered once every rule has judged that [us].
        state: what is remembered; a new client's by default.
    """

    def __init__(self, rules: Iterable[Rule], forget_after_us: int, state: ClientState | None = None) -> None:
        self._rules = {rule.name: rule for rule in rules}
        self._forget_after_us = forget_after_us
        self.state = state or ClientState()
        self._said: list[dict[str, Any]] = []

    def see(self, push: Push) -> list[dict[str, Any]] | None:
        """A push came: the alerts that it opens and clears; None if it is a repeat or came behind a later one."""
        state = self.state
        if state.is_ended or (state.last and [push.received_us, push.push_id] <= state.last):
            return None
        state.last = [push.received_us, push.push_id]
        self._know(push)
        for name in list(state.rules):
            rule = self._rule_of(name)
            if rule is None or not rule.matches(state.identity):
                self._clear(name, Cleared.NOT_WATCHED, push.received_us)
                del state.rules[name]
        for rule in self._rules.values():
            if rule.matches(state.identity):
                state.rules.setdefault(rule.name, RuleState(kind=rule.kind))
                self._judge(rule, push)
        if push.terminating:
            self._end(Cleared.ENDED, push.received_us)
            state.is_ended = True
        return self._take()

    def advance(self, now_us: int) -> list[dict[str, Any]]:
        """No push received up to now will come any more: the alerts that this opens and clears."""
        if not self.state.last:
            return []
        for name, due_us in sorted(self._due().items(), key=lambda item: item[1]):
            if due_us <= now_us:
                self._run_out(name, due_us)
        if self.is_forgotten(now_us):
            self._end(Cleared.GONE, self._forget_us())
        return self._take()

    def is_forgotten(self, now_us: int) -> bool:
        """True once there is nothing left to remember of it."""
        return not self.state.last or self._forget_us() <= now_us

    @property
    def deadline_us(self) -> int:
        """When `advance` has something to do [us], unless a push comes before."""
        return min((*self._due().values(), self._forget_us()))

    def _rule_of(self, name: str) -> Rule | None:
        """The rule that is remembered under this name, if there is still one of its kind."""
        rule = self._rules.get(name)
        return rule if rule is not None and rule.kind == self.state.rules[name].kind else None

    def _know(self, push: Push) -> None:
        state = self.state
        kept = {name: state.identity.get(name) for name in SAID_BY_PAYLOADS if push.identity.get(name) is None}
        state.identity = {**push.identity, **kept}
        connection = [push.identity.get(n) for n in ("client_source_address", "client_source_port", "receiver_node_id")]
        others = [each for each in state.connections if each != connection]
        state.connections = [*others, connection][-MAX_CONNECTIONS:]

    def _judge(self, rule: Rule, push: Push) -> None:
        remembered = self.state.rules[rule.name]
        samples = [sample for sample in push.samples if sample.metric_name in rule.metrics]
        match rule.condition:
            case Silence():
                self._clear(rule.name, Cleared.RECOVERED, push.received_us)
            case Threshold() as threshold if samples:
                self._judge_threshold(rule, threshold, remembered, samples, push.received_us)
            case Increase() as increase if samples:
                self._judge_increase(rule, increase, remembered, samples, push.received_us)

    def _judge_threshold(
        self, rule: Rule, threshold: Threshold, remembered: RuleState, samples: list[Sample], at_us: int
    ) -> None:
        worst = (max if threshold.is_upper else min)(samples, key=lambda sample: sample.value)
        before_us, remembered.sampled_us = remembered.sampled_us, at_us
        if not threshold.is_beyond(worst.value):
            remembered.since_us = None
            self._clear(rule.name, Cleared.RECOVERED, at_us)
            return
        if remembered.alert is not None:
            furthest = (remembered.alert["furthest"], worst.value)
            remembered.alert["furthest"] = max(furthest) if threshold.is_upper else min(furthest)
            return
        is_gap = before_us is not None and at_us - before_us > self._patience_us()
        if remembered.since_us is None or is_gap:
            remembered.since_us = at_us
        if at_us - remembered.since_us > threshold.for_us or not threshold.for_us:
            self._open(rule, _finding(remembered.since_us, worst), at_us)

    def _judge_increase(
        self, rule: Rule, increase: Increase, remembered: RuleState, samples: list[Sample], at_us: int
    ) -> None:
        remembered.sampled_us = at_us
        growth = _growth(samples, increase, remembered.totals)
        steps = [step for step in remembered.steps if step[0] > at_us - increase.within_us]
        if growth > 0:
            steps.append([at_us, growth])
        if len(steps) > MAX_STEPS:
            steps[:2] = [[steps[1][0], steps[0][1] + steps[1][1]]]
        remembered.steps = steps
        total = sum(step[1] for step in steps)
        if total <= increase.bound:
            self._clear(rule.name, Cleared.RECOVERED, at_us)
        elif remembered.alert is None:
            began_us = int(steps[0][0])
            self._open(rule, Finding(began_us=began_us, metric_name=samples[0].metric_name, value=total), at_us)
        else:
            remembered.alert["furthest"] = max(remembered.alert["furthest"], total)

    def _due(self) -> dict[str, int]:
        """When each rule has something to do although nothing comes, by its name."""
        state, due = self.state, {}
        if state.is_ended:
            return {}
        for name, remembered in state.rules.items():
            rule = self._rule_of(name)
            match rule.condition if rule else None:
                case Silence(intervals=intervals, stays=stays) if remembered.alert is None:
                    if stays or self._says_when_it_ends():
                        due[name] = self._last_us + self._silent_after_us(intervals)
                case Threshold() if remembered.since_us is not None and remembered.sampled_us is not None:
                    due[name] = remembered.sampled_us + self._patience_us()
                case Increase(within_us=within_us) if remembered.steps and remembered.sampled_us is not None:
                    due[name] = remembered.sampled_us + max(within_us, self._patience_us())
        return due

    def _says_when_it_ends(self) -> bool:
        known = self.state.identity.get
        library = library_of(known("client_software_name"), known("client_software_version"))
        return says_when_it_ends(library, known("role"), known("group_id"))

    def _run_out(self, name: str, due_us: int) -> None:
        rule, remembered = self._rules[name], self.state.rules[name]
        if isinstance(rule.condition, Silence):
            self._open(rule, Finding(began_us=self._last_us), due_us)
            return
        remembered.since_us = None
        remembered.steps, remembered.totals = [], {}
        self._clear(name, Cleared.UNKNOWN, due_us)

    @property
    def _last_us(self) -> int:
        return int(self.state.last[0])

    def _interval_us(self) -> int:
        said_ms = self.state.identity.get("push_interval_ms") or DEFAULT_PUSH_INTERVAL_MS
        return min(max(said_ms, _INTERVAL_MS[0]), _INTERVAL_MS[1]) * 1_000

    def _patience_us(self) -> int:
        """How long a metric may stay away before nothing is known of it: as a client before it counts as silent."""
        return max(SILENT_AT_LEAST_US, SILENT_INTERVALS * self._interval_us())

    def _forget_us(self) -> int:
        """An ended client is remembered as long as a repeat of its pushes may come: up to the time of its last."""
        if self.state.is_ended:
            return self._last_us + 1
        return self._last_us + self._longest_wait_us() + self._forget_after_us

    def _longest_wait_us(self) -> int:
        """After which every rule has judged what does not come."""
        waits = [self._patience_us()]
        for rule in self._rules.values():
            match rule.condition:
                case Silence(intervals=intervals):
                    waits.append(self._silent_after_us(intervals))
                case Increase(within_us=within_us):
                    waits.append(within_us)
        return max(waits)

    def _silent_after_us(self, intervals: float) -> int:
        return max(SILENT_AT_LEAST_US, round(intervals * self._interval_us()))

    def _open(self, rule: Rule, finding: Finding, at_us: int) -> None:
        alert = opened(rule, self.state.identity, finding, at_us=at_us)
        self.state.rules[rule.name].alert = alert
        self._say(alert)

    def _clear(self, name: str, reason: Cleared, at_us: int) -> None:
        remembered = self.state.rules[name]
        if remembered.alert is not None:
            self._say(cleared(remembered.alert, reason, at_us=at_us))
            remembered.alert = None

    def _end(self, reason: Cleared, at_us: int) -> None:
        for name in self.state.rules:
            self._clear(name, reason, at_us)
        self.state.rules = {}

    def _say(self, alert: Mapping[str, Any]) -> None:
        names = ("client_source_address", "client_source_port", "receiver_node_id")
        connections = [dict(zip(names, each, strict=True)) for each in self.state.connections]
        self._said.append({**alert, **self.state.identity, "connections": connections})

    def _take(self) -> list[dict[str, Any]]:
        said, self._said = self._said, []
        return said


def _finding(since_us: int, worst: Sample) -> Finding:
    return Finding(
        began_us=since_us,
        metric_name=worst.metric_name,
        value=worst.value,
        node_id=worst.node_id,
        topic=worst.topic,
    )


def _growth(samples: list[Sample], increase: Increase, totals: dict[str, float]) -> float:
    """By how much the sums of one push grew; what is by topic does not count where a total without a topic is there.

    The first delta of a client reaches back to its start: longer than the window, it cannot be told what of it falls
    within. So with the first cumulative value.
    """
    growth = 0.0
    for name in dict.fromkeys(sample.metric_name for sample in samples):
        of_metric = [sample for sample in samples if sample.metric_name == name]
        counted = [sample for sample in of_metric if sample.topic is None] or of_metric
        deltas = [s for s in counted if s.temporality == "delta" and (s.covers_us or 0) <= increase.within_us]
        growth += sum(sample.value for sample in deltas)
        if cumulative := [sample.value for sample in counted if sample.temporality == "cumulative"]:
            total, before = sum(cumulative), totals.get(name)
            totals[name] = total
            growth += 0.0 if before is None else max(0.0, total - before)
    return growth

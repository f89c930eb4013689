"""Many traces at once, judged, counted, and made small where they fail.

A trace whose times came too near to a boundary is played again. A trace that fails is played again, too, so that what
is printed is something that can be seen again; one that then passes is counted apart.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from support.differential.differences import RULES, Judge
from support.differential.pair import SIDES, Contents, Group, Pair
from support.differential.runner import Exchange, Playing
from support.differential.traces import Edit, Push, Step, Trace
from support.waiting import pause_async

ATTEMPTS = 4
CONCURRENT = 250
STAGGER_S = 6.0
"""The first traces begin spread over so long, so that their bursts do not all come at once."""

_MINIMISED = 3
"""Failing traces that are made small; where more fail, they fail for the same reasons."""

_MINIMISE_ROUNDS = 8

CODES = {
    0: "NONE",
    42: "INVALID_REQUEST",
    76: "UNSUPPORTED_COMPRESSION_TYPE",
    87: "INVALID_RECORD",
    89: "THROTTLING_QUOTA_EXCEEDED",
    117: "UNKNOWN_SUBSCRIPTION_ID",
    118: "TELEMETRY_TOO_LARGE",
}


@dataclass
class Outcome:
    """What a campaign came to."""

    traces: int = 0
    steps: int = 0
    again: Counter[str] = field(default_factory=Counter)
    """Plays that the times did not allow to judge, by reason."""
    inconclusive: list[str] = field(default_factory=list)
    """Traces of which no play could be judged."""
    unrepeatable: list[str] = field(default_factory=list)
    """Traces that failed once and passed when played again."""
    failures: list[str] = field(default_factory=list)
    answers: dict[str, Counter[int | str]] = field(default_factory=lambda: {side: Counter() for side in SIDES})
    fired: Counter[str] = field(default_factory=Counter)

    def add(self, playing: Playing, judge: Judge) -> None:
        """Counts a trace that was judged."""
        self.traces += 1
        self.fired += judge.fired
        for exchange in playing.exchanges:
            self.steps += bool(exchange.answers)
            for side, answer in exchange.answers.items():
                self.answers[side][answer.error] += 1

    def table(self) -> str:
        """The counts, for people."""
        lines = [
            f"{self.traces} traces, {self.steps} requests to each side; {len(self.inconclusive)} inconclusive",
            f"{len(self.unrepeatable)} unrepeatable; plays repeated for their times: {dict(self.again)}",
            f"{'answer':32}{'Kafka':>9}{'ours':>9}",
        ]
        for code in sorted({*CODES, *self.answers["kafka"], *self.answers["ours"]}, key=str):
            name = f"{CODES.get(code, '')} {code}" if isinstance(code, int) else code
            lines.append(f"{name:32}{self.answers['kafka'][code]:>9}{self.answers['ours'][code]:>9}")
        lines.append(f"{'rule':88}{'fired':>6}")
        lines += [f"{rule.name:88}{self.fired[rule.name]:>6}" for rule in RULES]
        return "\n".join(lines)


class Campaign:
    """Plays traces against a pair."""

    def __init__(self, pair: Pair, concurrent: int = CONCURRENT) -> None:
        self.outcome = Outcome()
        self._pair = pair
        self._ports = pair.ports
        self._contents: Mapping[str, Contents] = pair.contents
        self._slots = asyncio.Semaphore(concurrent)
        self._concurrent = concurrent
        self._failed_so_far = 0

    async def run(self, traces: Sequence[Trace]) -> None:
        """Plays `traces`, as many at once as are allowed."""
        await asyncio.gather(*(self._one(trace, number) for number, trace in enumerate(traces)))

    async def run_with_edits(self, traces: Sequence[Trace], group: Group) -> None:
        """Plays `traces` side by side; the subscription of `group` is changed wherever they have an edit."""
        playing = [Playing(trace, self._ports, self._contents) for trace in traces]
        try:
            await asyncio.gather(*(each.open() for each in playing))
            await self._play_with_edits(playing, group)
        finally:
            for each in playing:
                each.end()
        for each in playing:
            self._judge_edited(each)

    async def _play_with_edits(self, playing: Sequence[Playing], group: Group) -> None:
        parts = [split_at_edits(each.trace.steps) for each in playing]
        for number in range(len(parts[0])):
            if number:
                properties = {"interval.ms": str(group.interval_ms + number), "metrics": f"org.apache.kafka.{number}."}
                await asyncio.to_thread(self._pair.edit, group, **properties)
                for each in playing:
                    each.edited(number)
            await asyncio.gather(*(each.play(part[number]) for each, part in zip(playing, parts, strict=True)))

    def _judge_edited(self, playing: Playing) -> None:
        if playing.inconclusive:
            self.outcome.inconclusive.append(f"{_name(playing.trace)}: {playing.inconclusive}")
            return
        judge = judged(playing)
        self.outcome.add(playing, judge)
        if judge.problems:
            self.outcome.failures.append(described(playing, judge))

    async def _one(self, trace: Trace, number: int) -> None:
        if number < self._concurrent:
            await pause_async(STAGGER_S * number / self._concurrent, "traces do not start all at once")
        async with self._slots:
            playing = await self._conclusive(trace)
            if playing is None:
                return
            judge = judged(playing)
            self.outcome.add(playing, judge)
            if judge.problems:
                await self._failed(trace, playing, judge)

    async def _conclusive(self, trace: Trace) -> Playing | None:
        why = ""
        for _ in range(ATTEMPTS):
            playing = await self._play(trace)
            if not playing.inconclusive:
                return playing
            why = playing.inconclusive
            self.outcome.again[why] += 1
        self.outcome.inconclusive.append(f"{_name(trace)}: {why}")
        return None

    async def _play(self, trace: Trace) -> Playing:
        playing = Playing(trace, self._ports, self._contents)
        try:
            await playing.open()
            await playing.play(trace.steps)
        finally:
            playing.end()
        return playing

    async def _failed(self, trace: Trace, playing: Playing, judge: Judge) -> None:
        again = [await self._play(trace) for _ in range(2)]
        if not any(judged(each).problems for each in again if not each.inconclusive):
            self.outcome.unrepeatable.append(described(playing, judge))
            return
        self._failed_so_far += 1
        if self._failed_so_far <= _MINIMISED:
            playing, judge = await self._minimised(playing, judge)
        self.outcome.failures.append(described(playing, judge))

    async def _minimised(self, playing: Playing, judge: Judge) -> tuple[Playing, Judge]:
        """Leaves out steps, one in a round, as long as the rest still fails."""
        for _ in range(_MINIMISE_ROUNDS):
            trace = playing.trace
            smaller = [trace.without(position) for position in range(len(trace.steps))]
            played = await asyncio.gather(*(self._play(each) for each in smaller if each.steps))
            failing = [(each, judged(each)) for each in played if not each.inconclusive]
            failing = [(each, its) for each, its in failing if its.problems]
            if not failing:
                break
            # What fails earliest can lose the most.
            playing, judge = min(failing, key=lambda pair: pair[1].problems[0][0])
        return playing, judge


def judged(playing: Playing) -> Judge:
    """The judgement of a trace that was played."""
    judge = Judge(playing.trace)
    judge.judge(playing.exchanges)
    return judge


def split_at_edits(steps: Iterable[Step]) -> list[tuple[Step, ...]]:
    """The steps before, between and after the edits."""
    parts: list[list[Step]] = [[]]
    for step in steps:
        if isinstance(step, Edit):
            parts.append([])
        else:
            parts[-1].append(step)
    return [tuple(part) for part in parts]


def described(playing: Playing, judge: Judge) -> str:
    """The trace with both sides' answers, what is wrong with them, and how to see it again."""
    trace = playing.trace
    number = "edits" if any(isinstance(exchange.step, Edit) for exchange in playing.exchanges) else str(trace.index)
    lines = [f"{_name(trace)}; again: PYTHONPATH=tests python -m support.differential {trace.seed} {number}"]
    problems = dict(reversed(judge.problems))
    for position, exchange in enumerate(playing.exchanges):
        codes = " / ".join(str(exchange.answers[side].error) for side in SIDES) if exchange.answers else ""
        lines.append(f"  {_step_text(exchange):72} {codes}")
        if position in problems:
            lines.append(f"  ^^^ {problems[position]}")
            break
    return "\n".join(lines)


def _name(trace: Trace) -> str:
    return f"trace {trace.index} of seed {trace.seed}, group {trace.group.name}"


def _step_text(exchange: Exchange) -> str:
    step = exchange.step
    if not isinstance(step, Push):
        return str(step)
    last = ", terminating" if step.terminating else ""
    return f"Push {exchange.slot} on {step.connection}: {step.payload}, {step.subscription} id{last}"

"""The differential test's own judgement: what no rule explains is a problem, and a rule binds both sides."""

import uuid
from collections.abc import Callable
from dataclasses import replace

import pytest
from crc32c import crc32c
from support.differential.differences import Judge
from support.differential.pair import GROUPS, Content
from support.differential.runner import Answer, Exchange
from support.differential.traces import Edit, Get, Push, Reconnect, Step, Trace, Wait, trace, trace_with_edits

CONTENT = Content(
    checksum=crc32c(b"[*]3000"),
    accepted_compression_types=(4, 3, 1, 2),
    push_interval_ms=3000,
    telemetry_max_bytes=1 << 20,
    delta_temporality=True,
    requested_metrics=("*",),
)
OWN = uuid.UUID(int=5)
GROUP = {group.name: group for group in GROUPS}


def get(kafka: int, ours: int, *, kafka_content: Content | None = None, reference: Content = CONTENT) -> Exchange:
    return Exchange(
        step=Get(connection=0, slot="own"),
        slot="own",
        asked={"kafka": OWN, "ours": OWN},
        answers={
            "kafka": get_answer(kafka, uuid.UUID(int=0), kafka_content or reference),
            "ours": get_answer(ours, OWN, reference),
        },
        reference={"kafka": reference, "ours": reference},
    )


def get_answer(error: int, id_with_error: uuid.UUID, content: Content) -> Answer:
    if error:
        return Answer(error=error, instance_id=id_with_error)
    return Answer(error=error, instance_id=OWN, content=content)


def push(kafka: int, ours: int, payload: str = "good:none", *, right_id: bool = True, last: bool = False) -> Exchange:
    return Exchange(
        step=Push(
            connection=0,
            slot="own",
            subscription="right" if right_id else "wrong",
            payload=payload,
            terminating=last,
        ),
        slot="own",
        asked={"kafka": OWN, "ours": OWN},
        answers={"kafka": Answer(error=kafka), "ours": Answer(error=ours)},
        reference={"kafka": CONTENT, "ours": CONTENT},
        right_id=right_id,
    )


def step(step: Step) -> Exchange:
    return Exchange(step=step)


def judged(*exchanges: Exchange, group: str = "quick") -> Judge:
    judge = Judge(Trace(seed=0, index=0, group=GROUP[group], steps=()))
    judge.judge(list(exchanges))
    return judge


WAIT = step(Wait(intervals=1.5))


@pytest.mark.parametrize(
    "exchanges",
    [
        (get(0, 0), get(89, 89), push(0, 0), push(89, 89), WAIT, get(0, 0), push(0, 0)),
        (push(87, 0, "large-decompressed:zstd"), push(89, 89)),
        (push(117, 117, right_id=False), push(89, 0), push(89, 89), WAIT, push(0, 0)),
        (push(76, 76, "unknown-codec:5"), get(0, 0), push(89, 0), push(89, 89)),
        (push(117, 117, right_id=False, last=True), push(42, 0), push(89, 89)),
        (push(0, 0, last=True), push(42, 42), push(89, 42), WAIT, push(0, 42)),
        (push(0, 0, last=True), step(Reconnect(connection=0)), push(0, 0)),
    ],
)
def test_what_the_rules_say_is_no_problem(exchanges: tuple[Exchange, ...]) -> None:
    assert judged(*exchanges).problems == []


@pytest.mark.parametrize(
    ("exchanges", "position"),
    [
        ((get(0, 89),), 0),
        ((push(0, 42),), 0),
        ((get(0, 0), push(0, 89)), 1),
        ((push(87, 87, "large-decompressed:zstd"),), 0),  # the rule says 0 for ours
        ((push(0, 0, "large-decompressed:zstd"),), 0),  # the rule says 87 for Kafka
        ((push(87, 87, "bomb:zstd"),), 0),
        ((push(117, 117, right_id=False), push(89, 89)), 1),  # our turn was not given back
        ((push(117, 117, right_id=False), push(0, 0)), 1),  # Kafka has mended it: the rule is out of date
        ((push(76, 76, "unknown-codec:5"), get(0, 0), push(89, 89)), 2),
        ((push(0, 0, last=True), push(42, 42), push(89, 89)), 2),
        ((push(117, 117, right_id=False, last=True), push(42, 42)), 1),
        ((get(0, 0), step(Edit(number=1)), get(0, 0)), 2),  # the edit of another's subscription opened our gate
        ((get(0, 0, kafka_content=replace(CONTENT, push_interval_ms=1)),), 0),
        ((get(0, 0, reference=replace(CONTENT, checksum=5)),), 0),  # the same wrong subscription id on both
    ],
)
def test_what_no_rule_says_is_a_problem(exchanges: tuple[Exchange, ...], position: int) -> None:
    assert judged(*exchanges, group="bystander").problems[0][0] == position


@pytest.mark.parametrize("make", [trace, trace_with_edits])
def test_a_trace_is_made_again_by_its_seed_and_index(make: Callable[[int, int], Trace]) -> None:
    assert [make(1, index) for index in range(50)] == [make(1, index) for index in range(50)]
    assert make(1, 0).steps != make(2, 0).steps


def test_waits_are_clear_of_the_interval_and_only_where_it_is_short() -> None:
    for index in range(500):
        each = trace(714, index)
        waits = [step.intervals for step in each.steps if isinstance(step, Wait)]
        assert all(intervals >= 1.3 for intervals in waits)
        assert not waits or each.group.waits

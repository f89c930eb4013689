"""Causes of cases, for `caused_by`.

A cause is declared to explain the verdict and is about its subject, its client, its group or a broker that it uses. It
began no later than the consequence, a window's slack allowed, and the consequence does not outlast it by more than half
an hour. A broker has many clients, so its effect is shared: others that are as exposed show it too, or this one is more
exposed than they are (`Case.alike`). Where a library sends no load, the latter is unknown: then a case that begins and
ends with the broker's is its effect. Without the cause there would be no consequence: at least half of its time
coincides with the cause, a latency without the most that the cause adds is within its bound, and a slow application
does not make a member read more than the others of its group. Of several causes the one nearest in time is named.

Worked through: a broker is slow from 12:00 to 13:00. Two of its 70 producers lose records from 12:20 on, one of them
sends three times the median: 1 of 69 others as exposed does not point to the broker, three times the load does. So the
large one is explained, the other is not. A quota adds 190 ms to each request of a client whose requests take 500 ms
instead of 10: 310 ms would be left, so it is slow for another reason, too. A single path of it may take 500 ms, if the
longest throttle time is 490 ms or more: most of its requests may be to other brokers, and not throttled.
"""

from collections.abc import Iterator
from typing import Final

from fleetgauge.verdicts.catalogue import BY_ID
from fleetgauge.verdicts.memory import Case

_SLACK_US: Final = 300_000_000
"""Time by which a consequence may be seen before its cause [us]: a window is bad if a part of it is."""

_OUTLASTS_US: Final = 1_800_000_000
"""Time by which a consequence may outlast its cause [us]: a backlog is worked off, a buffer drains."""

_BESIDE: Final = 0.5
"""Least share of a consequence's time that coincides with its cause."""

_SHARED: Final = 0.25
"""Least share of the clients as exposed to a broker that show an effect of it."""


class Causes:
    """The cases that may explain others, by client, group and node, so that each is compared with few.

    Args:
        cases: all of them.
    """

    def __init__(self, cases: list[Case]) -> None:
        self._about: dict[tuple[str, str, str], list[Case]] = {}
        for case in cases:
            if case.verdict in BY_ID and BY_ID[case.verdict].explains:  # rules of one's own explain nothing
                for kind, name in _concerned(case):
                    self._about.setdefault((case.cluster_id, kind, name), []).append(case)

    def cause_of(self, case: Case) -> Case | None:
        """The case that explains this one; None if there is none."""
        kind, name = "client", case.client_id
        if case.subject_kind == "group":
            kind, name = "group", case.group_id
        near = list(self._about.get((case.cluster_id, kind, str(name)), ()))
        if case.node_id is not None:  # a broker explains its own paths, not all of its clients'
            near = [each for each in near if each.subject_kind != "node"]
            near += self._about.get((case.cluster_id, "node", str(case.node_id)), ())
        explaining = [each for each in near if _explains(each, case)]
        return min(
            explaining, key=lambda each: (sum(_ends_apart_us(each, case)), each.verdict, each.subject), default=None
        )


def _concerned(case: Case) -> Iterator[tuple[str, str]]:
    """The clients, groups and nodes that a case may explain something of."""
    for kind in ("client", "group"):
        for name in case.about.get(kind, ()):
            yield kind, name
    if case.subject_kind == "node":
        yield "node", str(case.node_id)


def _explains(cause: Case, case: Case) -> bool:
    is_declared = case.verdict in BY_ID[cause.verdict].explains
    begins_first = cause.first_bad_us <= case.first_bad_us + _SLACK_US
    is_over = cause.cleared_us is not None and cause.cleared_us <= case.first_bad_us
    is_outlasted = cause.cleared_us is not None and case.last_bad_us > cause.cleared_us + _OUTLASTS_US
    if not is_declared or not begins_first or is_over or is_outlasted:
        return False
    return _is_shared(cause, case) and _is_beside(cause, case) and not _is_left(cause, case)


def _is_beside(cause: Case, case: Case) -> bool:
    """True if at least half of the time of a case coincides with a cause."""
    end_us = case.last_bad_us if cause.cleared_us is None else min(cause.last_bad_us + _SLACK_US, case.last_bad_us)
    beside_us = end_us - max(cause.first_bad_us - _SLACK_US, case.first_bad_us)
    return beside_us >= _BESIDE * (case.last_bad_us - case.first_bad_us)


def _is_left(cause: Case, case: Case) -> bool:
    """True if the case would be bad without what the cause adds, or if the cause does not affect its figure."""
    last = case.evidence[-1]
    adds_ms = cause.adds_longest_ms if case.subject_kind == "path" else cause.adds_ms
    if last["metric"].endswith("latency_avg_ms") and adds_ms is not None:
        return bool(last["observed"] - adds_ms > case.bound)
    return cause.verdict == "slow-processing" and last["metric"] == "records_consumed"


def _is_shared(cause: Case, case: Case) -> bool:
    """False where a broker has others as exposed, and too few of them show the effect.

    A client whose library sends no load may be more exposed than they are: then beginning and end decide.
    """
    if cause.subject_kind != "node" or case.alike.get(str(cause.node_id), 1.0) >= _SHARED:
        return True
    return not case.has_load and all(apart_us <= _SLACK_US for apart_us in _ends_apart_us(cause, case))


def _ends_apart_us(cause: Case, case: Case) -> tuple[int, int]:
    """Distance of the beginnings, and of the ends [us]."""
    return abs(cause.first_bad_us - case.first_bad_us), abs(cause.last_bad_us - case.last_bad_us)

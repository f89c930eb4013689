"""The table `verdicts`: a memory's cases as ranked rows; a consequence names its cause and ranks behind it."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from fleetgauge.verdicts.arrow import Table, pa, typed
from fleetgauge.verdicts.catalogue import verdicts_of
from fleetgauge.verdicts.causes import Causes
from fleetgauge.verdicts.declare import Verdict
from fleetgauge.verdicts.memory import Case, Memory
from fleetgauge.verdicts.rules import Rules

_TIME: Final = pa.timestamp("us", tz="UTC")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

EVIDENCE: Final = pa.struct(
    [
        ("metric", pa.string()),
        ("window_start", _TIME),
        ("window_s", pa.int32()),
        ("observed", pa.float64()),
        ("expected", pa.float64()),
        ("unit", pa.string()),
        ("samples", pa.int64()),
    ]
)

SCHEMA: Final = pa.schema(
    [
        *typed(pa.string(), "verdict", "subject_kind", "subject", "cluster_id", "principal", "client_id", "group_id"),
        ("node_id", pa.int32()),
        ("instances", pa.list_(pa.string())),
        ("instance_count", pa.int64()),
        ("severity", pa.string()),
        ("score", pa.float64()),
        ("confidence", pa.float64()),
        ("state", pa.string()),
        *typed(_TIME, "opened_at", "last_seen_at", "cleared_at"),
        *typed(pa.string(), "why", "action", "side", "caused_by"),
        ("evidence", pa.list_(EVIDENCE)),
        ("judged_by", pa.list_(pa.string())),
    ]
)
"""One row per verdict and subject, open or cleared; the columns of the contract."""

_OF_SEVERITY: Final = {"critical": 60.0, "warning": 35.0, "info": 10.0}
_MOST_OF_EXCESS: Final = 20.0
_MOST_OF_EXTENT: Final = 20.0
_CLEARED: Final = 0.5
_BEHIND: Final = 0.9
"""Largest score of a consequence, as a share of its cause's."""


def ranked(memory: Memory, rules: Rules) -> Table:
    """SCHEMA, highest score first: a cause comes before its consequences."""
    by_id = {verdict.id: verdict for verdict in verdicts_of(rules)}
    cases = memory.all_cases()
    possible = Causes(cases)
    causes = {id(case): possible.cause_of(case) for case in cases}
    scores: dict[int, float] = {}

    def score(case: Case) -> float:
        if id(case) not in scores:
            cause = causes[id(case)]
            own = _score(case, rules)
            scores[id(case)] = own if cause is None else min(own, score(cause) * _BEHIND)
        return scores[id(case)]

    rows = [_row(case, by_id[case.verdict], causes[id(case)], score(case), rules) for case in cases]
    rows.sort(key=lambda row: (-row["score"], row["opened_at"], row["verdict"], row["cluster_id"], row["subject"]))
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def reference(case: Case) -> str:
    """Name of a case in `caused_by`."""
    return f"{case.verdict}:{case.subject_kind}:{case.subject}"


def _score(case: Case, rules: Rules) -> float:
    extent = min(_MOST_OF_EXTENT, 4.0 * max(case.instance_count, 1).bit_length())
    excess = _MOST_OF_EXCESS * (1 - 1 / case.excess)
    parts = _OF_SEVERITY[_severity(case, rules)] + excess + extent
    return parts * _confidence(case, rules) * (1.0 if case.cleared_us is None else _CLEARED)


def _severity(case: Case, rules: Rules) -> str:
    figures = rules[case.verdict]
    return figures.hint_severity if case.is_hint else figures.severity


def _confidence(case: Case, rules: Rules) -> float:
    """Share of `certainty`: 0.5, 0.75, 0.875, ... of it after 1, 2, 3, ... bad windows."""
    return case.certainty * (1 - 0.5 ** max(case.bad_windows, 1))


_OF_CASE: Final = [each.name for each in fields(Case) if each.name in SCHEMA.names]
"""Columns that are copied from a case."""


def _row(case: Case, verdict: Verdict, cause: Case | None, score: float, rules: Rules) -> dict[str, Any]:
    opened = _time(case.first_bad_us)
    words = {"subject": case.subject, "client": case.client_id or "the client", "node": case.node_id}
    evidence = [{**each, "window_start": _time(each["window_start"])} for each in case.evidence]
    return {
        **{name: getattr(case, name) for name in _OF_CASE},
        "severity": _severity(case, rules),
        "score": round(score, 2),
        "confidence": round(_confidence(case, rules), 3),
        "state": "open" if case.cleared_us is None else "cleared",
        "opened_at": opened,
        "last_seen_at": _time(case.last_bad_us),
        "cleared_at": None if case.cleared_us is None else _time(case.cleared_us),
        "why": f"{case.why}; since {opened:%Y-%m-%d %H:%M} UTC",
        "action": verdict.action.format(**words),
        "side": verdict.side,
        "caused_by": None if cause is None else reference(cause),
        "evidence": evidence,
    }


def _time(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)

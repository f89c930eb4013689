"""What a destination does not know yet of the table `verdicts`."""

from typing import Any

from unit.fleet.watch.verdict_rows import Row, at, verdict

from fleetgauge.fleet.watch.changes import Change, changes, verdict_id

NOW = at(59)


class Known:
    """A destination, by what it was delivered."""

    def __init__(self, since: int = 0) -> None:
        self.rows: dict[str, Row] = {}
        self.since = at(since)

    def gets(self, *rows: Row, **options: Any) -> list[Change]:
        found = changes(rows, self.rows, since=self.since, now=NOW, **options)
        self.rows.update({change.id: dict(change.row) for change in found})
        return found

    def kinds(self, *rows: Row, **options: Any) -> list[str]:
        return [change.kind.value for change in self.gets(*rows, **options)]


def test_a_verdict_is_delivered_once_when_it_opens_changes_its_severity_and_clears() -> None:
    known = Known()
    assert known.kinds(verdict()) == ["opened"]
    assert known.kinds(verdict(seen=20, why="slower")) == []
    assert known.kinds(verdict(seen=20, severity="warning")) == ["severity"]
    assert known.kinds(verdict(seen=20, severity="warning")) == []
    assert known.kinds(verdict(seen=20, severity="warning", cleared=25)) == ["cleared"]
    assert known.kinds(verdict(seen=20, severity="warning", cleared=25)) == []


def test_its_id_is_the_same_in_all_changes_and_another_for_every_verdict() -> None:
    one = verdict()
    ids = {verdict_id(row) for row in (one, one | {"severity": "info", "score": 1.0}, verdict(cleared=9))}
    assert len(ids) == 1
    others = [
        verdict("4"),
        verdict(opened=5),
        verdict(cluster_id="d"),
        verdict(verdict="throttled"),
        verdict(subject_kind="group"),
        verdict(subject_kind="instance", principal="User:a"),
        verdict(subject_kind="instance", principal="User:b"),
    ]
    assert len(ids | {verdict_id(row) for row in others}) == len(others) + 1
    (change,) = Known().gets(one)
    assert change.as_json() == {"id": verdict_id(one), "change": "opened", **one}


def test_one_that_opened_and_cleared_in_between_is_delivered_as_cleared() -> None:
    assert Known().kinds(verdict(cleared=15)) == ["cleared"]


def test_what_was_seen_last_before_a_new_destination_began_is_old_news() -> None:
    known = Known(since=30)
    assert known.kinds(verdict(), verdict("4", cleared=15)) == []
    assert known.kinds(verdict(seen=35)) == ["opened"], "it is seen again"


def test_a_verdict_that_another_explains_is_delivered_if_asked_or_once_it_stands_alone() -> None:
    caused = verdict("orders@3", caused_by="slow-node:node:3")
    assert Known().kinds(caused, consequences=True) == ["opened"]
    known = Known()
    assert known.kinds(caused) == []
    assert known.kinds(caused | {"caused_by": None}) == ["opened"]
    assert known.kinds(caused | {"state": "cleared", "cleared_at": at(15)}) == ["cleared"], "it was delivered"


def test_one_whose_beginning_late_pushes_move_keeps_its_id() -> None:
    known = Known()
    (opened,) = known.gets(verdict(opened=10, seen=20))
    for row in (verdict(opened=5, seen=25), verdict(opened=0, seen=30)):
        assert known.kinds(row) == []
    (cleared,) = known.gets(verdict(opened=0, seen=30, cleared=35))
    assert (cleared.id, cleared.kind.value) == (opened.id, "cleared")
    assert known.kinds(verdict(opened=0, seen=30, cleared=35)) == []
    (again,) = known.gets(verdict(opened=0, seen=30, cleared=35), verdict(opened=40, seen=50))
    assert (again.id != opened.id, again.kind.value) == (True, "opened")


def test_one_that_the_table_has_no_more_clears_now_and_once() -> None:
    known = Known()
    known.gets(verdict())
    (change,) = known.gets()
    assert (change.kind.value, change.row["state"], change.row["cleared_at"]) == ("cleared", "cleared", NOW)
    assert known.kinds() == []
    assert known.kinds(verdict()) == ["opened"], "it is back"

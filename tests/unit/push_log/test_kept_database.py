"""The small databases beside the log: brought up to a newer form once, whoever opens them, and never half."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from fleetgauge.push_log.embedded.kept_database import open_kept, read_kept, transaction
from fleetgauge.push_log.log import PushLogError

FIRST = "CREATE TABLE things (name TEXT)"
SECOND = "ALTER TABLE things ADD COLUMN size INTEGER NOT NULL DEFAULT 7"
THIRD = "UPDATE things SET size = size * 2; CREATE TABLE more (name TEXT)"
NEWEST = "CREATE TABLE things (name TEXT, size INTEGER NOT NULL DEFAULT 7); CREATE TABLE more (name TEXT)"
CHECK = "SELECT count(*) FROM things"


def first_form(path: Path) -> None:
    with closing(open_kept(path, FIRST, (), check=CHECK, consequence="")) as connection:
        connection.execute("INSERT INTO things VALUES ('a')")


def things(path: Path, *migrations: str) -> tuple[list[tuple[object, ...]], int]:
    with closing(open_kept(path, NEWEST, migrations, check=CHECK, consequence="")) as connection:
        rows = connection.execute("SELECT name, size FROM things").fetchall()
        return rows, int(connection.execute("PRAGMA user_version").get)


def test_an_older_form_is_brought_up_once_with_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    first_form(path)
    assert things(path, SECOND, THIRD) == ([("a", 14)], 2)
    assert things(path, SECOND, THIRD) == ([("a", 14)], 2)


def test_one_that_skipped_no_release_takes_the_step_that_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    first_form(path)
    assert things(path, SECOND) == ([("a", 7)], 1)
    assert things(path, SECOND, THIRD) == ([("a", 14)], 2)


def test_a_new_one_is_made_in_the_newest_form(tmp_path: Path) -> None:
    assert things(tmp_path / "new.db", SECOND, THIRD) == ([], 2)


def test_a_step_that_fails_leaves_everything_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    first_form(path)
    with pytest.raises(PushLogError, match="nowhere"):
        things(path, SECOND, "UPDATE nowhere SET size = 1")
    assert things(path, SECOND) == ([("a", 7)], 1)


def test_a_newer_form_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    assert things(path, SECOND, THIRD)[1] == 2
    with pytest.raises(PushLogError, match=r"newer Fleetgauge \(form 2\)"):
        things(path, SECOND)
    assert things(path, SECOND, THIRD)[1] == 2


def test_a_damaged_one_is_set_aside_and_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    path.write_bytes(b"no database " * 1_000)
    assert things(path, SECOND) == ([], 1)
    assert (tmp_path / "kept.db.corrupt").read_bytes().startswith(b"no database")


def test_many_may_open_it_at_once_while_it_is_brought_up(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    first_form(path)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(things(path, SECOND, THIRD))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [([("a", 14)], 2)] * 8


def test_a_transaction_that_raises_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    first_form(path)
    with closing(open_kept(path, FIRST, (), check=CHECK, consequence="")) as connection:

        def fails() -> None:
            with transaction(connection, path):
                connection.execute("DELETE FROM things")
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fails()
    with closing(sqlite3.connect(path)) as outside:
        assert outside.execute("SELECT name FROM things").fetchall() == [("a",)]


def test_reading_it_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    first_form(path)
    before = path.read_bytes()
    assert read_kept(path, (SECOND, THIRD), "SELECT name, size FROM things") == [("a", 14)]
    assert path.read_bytes() == before
    path.write_bytes(before[:4096] + b"damaged" * 100)
    damaged = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    with pytest.raises(PushLogError, match="damaged"):
        read_kept(path, (SECOND, THIRD), "SELECT name, size FROM things")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == damaged


def test_one_without_a_table_yet_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    path.touch()
    assert read_kept(path, (), "SELECT name FROM things") == []


def test_what_a_killed_process_began_is_rolled_back_before_it_is_read(tmp_path: Path) -> None:
    path, copied = tmp_path / "kept.db", tmp_path / "copied"
    first_form(path)
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA cache_size = 1")  # so that pages are written before the commit
        writer.execute("BEGIN IMMEDIATE")
        writer.executemany("INSERT INTO things VALUES (?)", [("b" * 1000,)] * 1000)
        copied.mkdir()
        for each in tmp_path.glob("kept.db*"):
            (copied / each.name).write_bytes(each.read_bytes())
        writer.rollback()
    assert read_kept(copied / path.name, (), "SELECT name FROM things") == [("a",)]


def test_one_that_was_cut_off_is_created_anew_and_the_log_says_what_is_lost(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kept.db"
    first_form(path)
    assert "database_empty" not in capfd.readouterr().out
    path.write_bytes(b"")
    with closing(open_kept(path, FIRST, (), check=CHECK, consequence="all things are lost")) as connection:
        assert connection.execute(CHECK).get == 0
    said = capfd.readouterr().out
    assert "push_log.database_empty" in said
    assert "all things are lost" in said

"""The node's state in its data directory: durable, shared by processes, whole or not at all."""

import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from fleetgauge.node.state.client_metrics import from_records
from fleetgauge.node.state.store import Records, State, StateStore
from fleetgauge.push_log.log import PushLogError
from fleetgauge.telemetry.subscriptions.overrides import ToolChanges

STRANGE = "</script>\n\x1b[31m\x1f\u202e\0é"


def setting(name: str, **values: str) -> State:
    return {"client_metrics": {name: values}}


def adding(old: State, kind: str, records: Records) -> State:
    return {**old, kind: {**old.get(kind, {}), **records}}


def test_what_was_written_is_read_by_another_process_of_the_node(tmp_path: Path) -> None:
    first, second = StateStore(tmp_path / "state.db"), StateStore(tmp_path / "state.db")
    assert first.read() == second.read() == {}
    written = {"client_metrics": {STRANGE: {"metrics": STRANGE}}, "of a later release": {"S": {"interval.ms": "1"}}}
    assert first.change(lambda _: written) == written
    assert second.read_if_changed() == written
    assert second.read_if_changed() is None
    assert StateStore(tmp_path / "state.db").read() == written


def test_a_change_sees_those_of_others(tmp_path: Path) -> None:
    first, second = StateStore(tmp_path / "state.db"), StateStore(tmp_path / "state.db")
    first.change(lambda _: setting("A", metrics="a"))
    second.change(lambda old: adding(old, "client_metrics", {"B": {"metrics": "b"}}))
    second.change(lambda old: adding(old, "quotas", {"users/A": {"request_percentage": "1.5"}}))
    first.change(lambda old: adding(old, "client_metrics", {"A": {"match": "client_id=x"}}))
    assert second.read() == {
        "client_metrics": {"A": {"match": "client_id=x"}, "B": {"metrics": "b"}},
        "quotas": {"users/A": {"request_percentage": "1.5"}},
    }
    first.change(lambda old: {**old, "client_metrics": {}})
    assert second.read_if_changed() == {"quotas": {"users/A": {"request_percentage": "1.5"}}}
    first.change(lambda old: {})
    assert second.read_if_changed() == {}


def test_a_change_that_raises_changes_nothing_and_the_next_one_is_made(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state.db")
    store.change(lambda _: setting("A", metrics="a"))

    def refuse(_: State) -> State:
        raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        store.change(refuse)
    assert store.read() == setting("A", metrics="a")
    assert store.change(lambda _: setting("A", metrics="b")) == StateStore(tmp_path / "state.db").read()


def test_a_change_whose_caller_is_gone_is_found_by_the_next_look(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state.db")
    store.read()
    store.change(lambda _: setting("A", metrics="a"))  # the answer is lost, as after a timeout
    assert store.read_if_changed() == setting("A", metrics="a")


def test_the_state_of_an_older_release_is_read_on(tmp_path: Path) -> None:
    """Its tables are those of the first schema, with a changed built-in subscription."""
    import apsw

    with apsw.Connection(str(tmp_path / "state.db")) as old:
        old.execute("CREATE TABLE client_metrics (name TEXT, key TEXT, value TEXT, PRIMARY KEY (name, key))")
        old.execute("CREATE TABLE replaces_default (is_true INTEGER PRIMARY KEY)")
        old.execute("INSERT INTO client_metrics VALUES ('default', 'metrics', 'a.'), ('S', 'interval.ms', '1000')")
        old.execute("INSERT INTO replaces_default VALUES (1)")
    found = StateStore(tmp_path / "state.db").read()
    assert from_records(found["client_metrics"]) == ToolChanges(
        values={"default": {"metrics": "a."}, "S": {"interval.ms": "1000"}}, replaces_default=True
    )
    assert StateStore(tmp_path / "state.db").change(lambda old: old) == found


def test_a_damaged_file_is_set_aside_and_the_node_starts(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"no database, but long enough to be read as one" * 100)
    assert StateStore(path).read() == {}
    assert path.with_name("state.db.corrupt").exists()


def test_a_file_with_damaged_text_is_set_aside_and_the_node_starts(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = StateStore(path)
    store.change(lambda _: setting("subscription", metrics="a"))
    store.close()
    path.write_bytes(path.read_bytes().replace(b"subscription", b"\xffubscription"))
    assert StateStore(path).read() == {}
    assert path.with_name("state.db.corrupt").exists()


def test_text_that_is_damaged_while_the_node_runs_is_an_error_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store, other = StateStore(path), StateStore(path)
    store.change(lambda _: setting("subscription", metrics="a"))
    other.read()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE records SET name = CAST(X'FF' AS TEXT)")
    for read in (other.read_if_changed, other.read, lambda: other.change(lambda old: old)):
        with pytest.raises(PushLogError, match=r"state\.db is damaged"):
            read()


def test_a_file_that_is_replaced_while_the_node_runs_takes_no_change(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = StateStore(path)
    store.change(lambda _: setting("subscription", metrics="a"))
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    copy.replace(path)
    with pytest.raises(PushLogError, match="was replaced while it was open: restart the node"):
        store.change(lambda _: setting("subscription", metrics="b"))
    assert StateStore(path).read() == setting("subscription", metrics="a")


def test_a_file_of_a_later_release_is_refused_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    StateStore(path).read()
    import apsw

    apsw.Connection(str(path)).execute("PRAGMA user_version = 7")
    with pytest.raises(PushLogError, match=r"state\.db"):
        StateStore(path).read()


@pytest.mark.slow
def test_a_killed_process_loses_no_acknowledged_change_and_leaves_no_half_one(tmp_path: Path) -> None:
    """Rounds of kill -9 at any moment; the long form is in the soak of tests/integration."""
    program = (
        "import sys; from fleetgauge.node.state.store import StateStore; from pathlib import Path\n"
        "store = StateStore(Path(sys.argv[1]))\n"
        "n = int(store.read().get('a', {}).get('A', {}).get('key', '0'))\n"
        "while True:\n"
        "    n += 1\n"
        "    store.change(lambda old: {kind: {name: {'key': str(n)} for name in 'AB'} for kind in 'ab'})\n"
        "    print(n, flush=True)\n"
    )
    path, last = tmp_path / "state.db", 0
    for lines in (1, 7, 20):
        process = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        with process.stdout:
            for _ in range(lines):
                last = int(process.stdout.readline())
            process.kill()
            last = int((process.stdout.read().split() or [str(last)])[-1])
        process.wait()
        found = StateStore(path).read()
        assert found["a"] == found["b"]
        assert found["a"]["A"] == found["a"]["B"]
        assert int(found["a"]["A"]["key"]) in (last, last + 1)  # the change under way may be made, too


def test_the_file_is_for_its_owner_alone_in_an_older_directory(tmp_path: Path) -> None:
    from fleetgauge.node.data_dir import DataDirectory

    data = DataDirectory(tmp_path)
    StateStore(data.state).read()
    data.state.chmod(0o644)
    data.create()
    assert stat.S_IMODE(data.state.stat().st_mode) == 0o600

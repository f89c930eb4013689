"""The data directory: identity, locks, the socket's path."""

import asyncio
import os
import stat
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop
from structlog.testing import capture_logs

from fleetgauge.base.errors import DataDirectoryError
from fleetgauge.node.config import ConfigError
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.private_files import keep_files_private
from fleetgauge.node.status.node_socket import ControlSocket, NotRunningError, Status, ask, ask_async, read_status


def test_the_cluster_id_is_made_once_and_kept(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path / "data")
    data.create()
    made = data.identity(node_id=1, cluster_id="")
    assert len(made) == 22
    assert data.identity(node_id=1, cluster_id="") == made
    assert f"cluster.id={made}\n" in data.meta_properties.read_text()


def test_a_directory_of_another_node_or_cluster_is_refused(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    data.identity(node_id=1, cluster_id="one")
    with pytest.raises(ConfigError, match=r"belongs to node\.id=1"):
        data.identity(node_id=2, cluster_id="one")
    with pytest.raises(ConfigError, match=r"belongs to cluster\.id=one"):
        data.identity(node_id=1, cluster_id="two")


def test_a_second_node_on_the_directory_is_told_who_holds_it(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    first = data.lock(".lock")
    with pytest.raises(ConfigError, match=r"process \d+ already uses"):
        data.lock(".lock")
    first.close()
    data.lock(".lock").close()


@pytest.mark.parametrize("depth", [1, 40, 150, 250])
@pytest.mark.parametrize("loop_factory", [None, uvloop.new_event_loop])
def test_sockets_lie_in_the_data_directory_however_deep_it_is_and_answer(
    tmp_path: Path, depth: int, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None
) -> None:
    data = DataDirectory(tmp_path / ("d" * depth) / "e")
    data.create()

    class Told(ControlSocket):
        async def _answers(self, _question: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
            yield {"found": depth}

    async def status() -> Status:
        server = Told(data.node_socket)
        await server.start()
        assert stat.S_IMODE((data.root / "node.sock").stat().st_mode) == 0o600
        found = await asyncio.to_thread(read_status, data.node_socket)
        await server.stop()
        return found

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(status()) == {"found": depth}
    assert not data.node_socket.exists()


def test_a_deep_node_answers_questions_and_a_left_over_socket_is_replaced(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path / ("d" * 150))
    data.create()
    data.node_socket.touch()

    class Echo(ControlSocket):
        async def _answers(self, question: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
            yield question

    async def both() -> list[dict[str, Any]]:
        echo = Echo(data.node_socket)
        await echo.start()
        by_thread = await asyncio.to_thread(lambda: list(ask(data.node_socket, {"n": 1})))
        by_loop = [answer async for answer in ask_async(data.node_socket, {"n": 2})]
        await echo.stop()
        return by_thread + by_loop

    assert asyncio.run(both()) == [{"n": 1}, {"n": 2}]


def test_a_deep_directory_without_a_node_is_said_to_have_none(tmp_path: Path) -> None:
    with pytest.raises(NotRunningError, match="no node answers"):
        read_status(DataDirectory(tmp_path / ("d" * 150)).node_socket)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_new_directory_and_its_files_are_this_users_alone_whatever_the_umask_was(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        keep_files_private()
        data = DataDirectory(tmp_path / "data")
        data.create()
        data.identity(node_id=1, cluster_id="")
        data.lock(".lock").close()
    finally:
        os.umask(before)
    assert mode(data.root) == 0o700
    assert {path.name: mode(path) for path in data.root.iterdir()} == {"meta.properties": 0o600, ".lock": 0o600}


def test_what_an_earlier_release_made_is_tightened_but_for_the_landing_zone_and_the_directory_itself(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o755)
    for name in ("push-log/1.sqlite", "workers/2/push-log/1.sqlite-wal", "landing/a.parquet", "dead-letters.db", "x"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "x").rename(tmp_path / "stranger")
    (tmp_path / "push-log" / "link").symlink_to(tmp_path / "stranger")
    for path in tmp_path.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    with capture_logs() as said:
        DataDirectory(tmp_path).create()
    found = {str(path.relative_to(tmp_path)): mode(path) for path in tmp_path.rglob("*") if not path.is_symlink()}
    assert found == {
        "push-log": 0o700,
        "push-log/1.sqlite": 0o600,
        "workers": 0o700,
        "workers/2": 0o700,
        "workers/2/push-log": 0o700,
        "workers/2/push-log/1.sqlite-wal": 0o600,
        "dead-letters.db": 0o600,
        "landing": 0o755,
        "landing/a.parquet": 0o644,
        "stranger": 0o644,
    }
    assert [f"chmod 0700 {tmp_path}" in entry["message"] for entry in said] == [True]
    tmp_path.chmod(0o700)
    with capture_logs() as said:
        DataDirectory(tmp_path).create()
    assert said == []


def test_a_path_that_no_system_takes_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"log\.dirs: cannot create the data directory .*null (byte|character)"):
        DataDirectory(tmp_path / "a\0b").create()


def test_a_data_directory_that_is_gone_is_named_and_is_not_taken_for_a_lock_that_another_holds(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path / "removed")
    with pytest.raises(DataDirectoryError, match=r"cannot use .*exporters\.lock: No such file"):
        data.lock("exporters.lock")


def test_a_meta_properties_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    data.meta_properties.mkdir()
    with pytest.raises(DataDirectoryError, match=r"cannot use .*meta\.properties: Is a directory"):
        data.identity(node_id=1, cluster_id="")

"""The data directory: identity, locks, the socket's path."""

from pathlib import Path

import pytest

from fleetgauge.config import ConfigError
from fleetgauge.data_dir import DataDirectory
from fleetgauge.errors import DataDirectoryError


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


def test_a_deep_directory_gets_a_short_socket_path(tmp_path: Path) -> None:
    deep = DataDirectory(tmp_path / ("d" * 150))
    assert len(str(deep.node_socket)) <= 100
    assert deep.node_socket == DataDirectory(tmp_path / ("d" * 150)).node_socket
    assert deep.node_socket != DataDirectory(tmp_path / ("e" * 150)).node_socket


def test_a_path_that_no_system_takes_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"log\.dirs: cannot make the data directory .*null byte"):
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

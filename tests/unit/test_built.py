"""What tests build is built once for each content of its sources."""

from pathlib import Path

import pytest
from support import built as module
from support.built import built


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "CACHE", tmp_path / "cache")
    return tmp_path / "cache"


def test_it_is_built_once_until_a_source_changes(tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    source.write_text("int main;")
    made: list[Path] = []

    def build(target: Path) -> None:
        made.append(target)
        (target / "program").write_text(source.read_text())

    first = built("program", build, source, "1.0")
    assert built("program", build, source, "1.0") == first
    source.write_text("long main;")
    second = built("program", build, source, "1.0")
    third = built("program", build, source, "1.1")
    assert made == [first, second, third]
    assert [(folder / "program").read_text() for folder in made] == ["int main;", "long main;", "long main;"]


def test_a_file_that_moves_within_a_folder_of_sources_is_another_source(tmp_path: Path) -> None:
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "a").write_text("same")
    first = built("jar", lambda _: None, folder)
    (folder / "a").rename(folder / "b")
    assert built("jar", lambda _: None, folder) != first


def test_what_a_failed_build_left_is_removed_before_the_next_try() -> None:
    def fail(target: Path) -> None:
        (target / "half").touch()
        raise RuntimeError("no compiler")

    with pytest.raises(RuntimeError, match="no compiler"):
        built("library", fail)
    assert not (built("library", lambda _: None) / "half").exists()

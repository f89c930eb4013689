"""What Spark's Python workers are spared."""

import importlib
import sys
import zipfile
from pathlib import Path
from zipimport import zipimporter

import pytest

from fleet.workers import forget_archives


def test_importers_of_archives_are_forgotten_and_their_modules_are_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "code.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("zipped_room/__init__.py", "")
        packed.writestr("zipped_room/first.py", "")
        packed.writestr("zipped_room/second.py", "word = 'found'")
    monkeypatch.syspath_prepend(str(archive))
    importlib.import_module("zipped_room.first")
    archives = {str(archive), str(archive / "zipped_room")}
    assert {path for path, importer in sys.path_importer_cache.items() if isinstance(importer, zipimporter)} >= archives

    forget_archives()

    assert not any(isinstance(importer, zipimporter) for importer in sys.path_importer_cache.values())
    assert importlib.import_module("zipped_room.second").word == "found"

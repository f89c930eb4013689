"""The kept corpus: for each target one zip of inputs that together reach everything that fuzzing has reached."""

import hashlib
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

DIRECTORY = Path(__file__).parent / "inputs"
_NO_TIME = (1980, 1, 1, 0, 0, 0)


def read_corpus(target: str) -> list[bytes]:
    """The inputs of a target, by name; none for a target that was never fuzzed."""
    file = DIRECTORY / f"{target}.zip"
    if not file.exists():
        return []
    with zipfile.ZipFile(file) as archive:
        return [archive.read(name) for name in sorted(archive.namelist())]


def write_corpus(target: str, inputs: Iterable[bytes]) -> int:
    """Keeps these inputs instead; the same inputs make the same file. Returns how many they are."""
    DIRECTORY.mkdir(exist_ok=True)
    named = {hashlib.sha256(data).hexdigest()[:16]: data for data in inputs}
    with zipfile.ZipFile(DIRECTORY / f"{target}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in sorted(named.items()):
            archive.writestr(zipfile.ZipInfo(name, _NO_TIME), data, zipfile.ZIP_DEFLATED)
    return len(named)


if __name__ == "__main__":
    # python tests/fuzz/corpus.py TARGET DIRECTORY: keeps the files of a directory as the target's corpus.
    print(write_corpus(sys.argv[1], (file.read_bytes() for file in Path(sys.argv[2]).iterdir())))

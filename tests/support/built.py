"""What tests fetch and build once: kept by the content of its sources, shared by all checkouts of a machine.

`FLEETGAUGE_CACHE` names the folder; by default it is `fleetgauge` in the user's cache (`$XDG_CACHE_HOME`, `~/.cache`).
Whatever nobody has used for 30 days is removed when something is built.
"""

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(
    os.environ.get("FLEETGAUGE_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fleetgauge"
)
BUILD_WITHIN_S = 1_800.0
"""How long one program may take to be fetched and built [s]."""
_UNUSED_FOR_S = 30 * 86_400
_COMPLETE = ".complete"


def built(name: str, build: Callable[[Path], object], *sources: Path | str | bytes) -> Path:
    """The folder that `build` filled, once for each content of `sources`.

    Args:
        name: the beginning of the folder's name.
        build: is given the folder, empty, and fills it where it will stay; what it leaves when it raises is removed
            before it is tried again. One process builds at a time, others wait for it.
        sources: what the result follows from: files, folders of files, and words such as a version.
    """
    target = CACHE / f"{name}-{_digest(sources)}"
    done = target / _COMPLETE
    with _alone(target):
        if not done.exists():
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(parents=True)
            build(target)
            _remove_unused()
        done.touch()
    return target


def _digest(sources: tuple[Path | str | bytes, ...]) -> str:
    digest = hashlib.sha256()
    for source in sources:
        for part in _content(source):
            digest.update(len(part).to_bytes(8) + part)
    return digest.hexdigest()[:16]


def _content(source: Path | str | bytes) -> Iterator[bytes]:
    if isinstance(source, Path):
        files = sorted(source.rglob("*")) if source.is_dir() else [source]
        for file in (file for file in files if file.is_file() and file.suffix != ".pyc"):
            yield str(file.relative_to(source.parent)).encode()
            yield file.read_bytes()
    else:
        yield source.encode() if isinstance(source, str) else source


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remove_unused() -> None:
    oldest = time.time() - _UNUSED_FOR_S
    for done in CACHE.glob(f"*/{_COMPLETE}"):
        if done.stat().st_mtime < oldest:
            shutil.rmtree(done.parent, ignore_errors=True)
            done.parent.with_name(f"{done.parent.name}.lock").unlink(missing_ok=True)

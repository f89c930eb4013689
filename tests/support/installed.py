"""Fleetgauge as README has it installed: from a copy of what is committed, by pip, into an environment of its own."""

import io
import subprocess
import tarfile
import venv
from pathlib import Path

from support.built import BUILD_WITHIN_S, ROOT, built


def commit() -> str:
    """What is checked out.

    Raises:
        subprocess.CalledProcessError: this is no checkout.
    """
    said = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=True, text=True)
    return said.stdout.strip()


def installed() -> Path:
    """The Python of an environment made by `pip install '.[kafka,console]'`, once for each commit."""
    of = commit()

    def install(home: Path) -> None:
        packed = subprocess.run(["git", "archive", of], cwd=ROOT, capture_output=True, check=True)
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
            files.extractall(home / "source", filter="data")
        venv.create(home / "environment", with_pip=True)
        pip = (home / "environment" / "bin" / "pip", "install", "--quiet", ".[kafka,console]")
        subprocess.run(pip, cwd=home / "source", check=True, timeout=BUILD_WITHIN_S)

    return built("installed", install, of) / "environment" / "bin" / "python"

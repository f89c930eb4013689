"""What each way to install brings: the modules of one package, four of whose folders a checkout also has as links."""

import io
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from support.built import BUILD_WITHIN_S

pytestmark = [pytest.mark.integration, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[3]
LINKS = ("exporters", "quotas", "telemetry", "wire")
VARIABLES = {**os.environ, "FLEETGAUGE_COMPILE": "0"}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is committed, as a release is built from it."""
    directory = tmp_path_factory.mktemp("archive")
    packed = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        pytest.skip("this is not a git checkout")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
        files.extractall(directory, filter="data")
    return directory


def run(*command: object, cwd: Path) -> str:
    ran = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=VARIABLES,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_WITHIN_S,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def files_below(root: Path) -> set[str]:
    files = (path for path in (root / "fleetgauge").rglob("*") if path.is_file())
    return {str(path.relative_to(root)) for path in files if path.suffix not in {".pyc", ".so"}}


def test_source_distribution_wheel_and_editable_install_have_the_modules_of_the_checkout(
    archive: Path, tmp_path: Path
) -> None:
    expected = files_below(archive)
    assert "fleetgauge/telemetry/manager.py" in expected
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path / "sdist", cwd=archive)
    [sdist] = (tmp_path / "sdist").iterdir()
    with tarfile.open(sdist) as files:
        files.extractall(tmp_path / "source", filter="data")
    [source] = (tmp_path / "source").iterdir()
    assert files_below(source) == expected

    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "wheel", cwd=source)
    [wheel] = (tmp_path / "wheel").iterdir()
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "installed")
    assert files_below(tmp_path / "installed") == expected
    assert {path.name for path in (tmp_path / "installed").iterdir() if path.suffix != ".dist-info"} == {"fleetgauge"}

    uv = Path(sys.executable).with_name("uv")
    run(uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv", cwd=archive)
    python = tmp_path / "venv" / "bin" / "python"
    # Its own backend, so that nothing is fetched.
    run(uv, "pip", "install", "--quiet", "--python", python, "--no-deps", "--editable", archive, cwd=archive)
    found = run(python, "-P", "-c", "import fleetgauge; print(*fleetgauge.__path__)", cwd=tmp_path)
    assert files_below(Path(found.strip()).parent) == expected


def test_a_short_name_is_refused_with_the_full_one(archive: Path) -> None:
    for name in LINKS:
        assert (archive / name).is_symlink()
        asked = (
            f"import sys; sys.path.insert(0, {str(archive)!r})\ntry: import {name}\nexcept ImportError as no: print(no)"
        )
        told = run(sys.executable, "-P", "-c", asked, cwd=archive.parent)
        assert told.startswith(f"the package is fleetgauge.{name}: import it by this name.")

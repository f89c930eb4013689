"""The assets of a release: two builds of one commit have the same bytes, and what they hold can be installed."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.built import BUILD_WITHIN_S
from support.waiting import PATIENCE_S

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.integration


def test_jars_package_and_changelog_have_one_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for project, name in (("bridge", "fleetgauge-bridge"), ("bridge/kroxylicious", "fleetgauge-kroxylicious")):
        pom = (ROOT / project / "pom.xml").read_text()
        assert f"<artifactId>{name}</artifactId>\n  <version>{version}</version>" in pom
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    assert headings[0] == "## [Unreleased]"
    assert all(line.startswith("## [") for line in headings)


def pins(lock: str) -> set[str]:
    return set(re.findall(r"^[a-z0-9][^\s=]*==[^\s;]+", (ROOT / lock).read_text(), re.MULTILINE))


@pytest.mark.parametrize("extras", ["base", "image", "image-fleet"])
def test_a_runtime_lock_has_the_versions_that_tests_run_with(extras: str) -> None:
    found = pins(f"locks/{extras}.lock")
    assert found <= pins("requirements.lock"), "make lock writes them anew"
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {re.split(r"[<>=;]", each)[0] for each in wanted} <= {each.partition("==")[0] for each in found}


def built(directory: Path, *, umask: int) -> dict[str, str]:
    """Name -> SHA-256 of the assets, built from a clone in `directory`."""
    subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(directory)], check=True, timeout=PATIENCE_S)
    venv = Path(sys.executable).parent
    environment = {**os.environ, "UV": str(venv / "uv"), "PYTHON": sys.executable, "TZ": f"UTC-{umask % 7}"}
    subprocess.run(
        ["sh", ".ci/dist.sh"], cwd=directory, env=environment, umask=umask, check=True, timeout=2 * BUILD_WITHIN_S
    )
    lines = (directory / "dist" / "SHA256SUMS").read_text().splitlines()
    return {name.strip(): digest for digest, _, name in (line.partition(" ") for line in lines)}


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.skipif(shutil.which("mvn") is None or shutil.which("cc") is None, reason="needs Maven and a C compiler")
def test_two_builds_of_a_commit_have_the_same_bytes(tmp_path: Path) -> None:
    first = built(tmp_path / "a", umask=0o022)
    second = built(tmp_path / "another" / "folder", umask=0o077)
    assert first == second
    kinds = ("none-any.whl", ".tar.gz", ".jar", "base.cdx.json", "image.lock")
    assert all(any(name.endswith(kind) for name in first) for kind in kinds)
    assert any("linux" in name for name in first if name.endswith(".whl"))
    assert sum(name.endswith(".jar") for name in first) == 2

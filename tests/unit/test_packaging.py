"""What wheels and images are made of; tests/integration/end_to_end builds them (test_compiled_form, test_image)."""

import importlib.util
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
WHEEL = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
MODULES = WHEEL["hooks"]["custom"]["modules"]


@pytest.fixture(scope="module")
def hook() -> Any:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_module_to_compile_is_there(hook: Any) -> None:
    hook.check_modules(ROOT, MODULES)
    assert len(set(MODULES)) == len(MODULES)


def test_a_module_that_is_not_there_is_named(hook: Any) -> None:
    with pytest.raises(ValueError, match=r"do not exist: wire/gone\.py\. After a module was moved"):
        hook.check_modules(ROOT, [*MODULES, "wire/gone.py"])


def test_the_module_by_which_the_command_line_tells_the_form_is_in_the_list() -> None:
    assert "fleetgauge/base/clock.py" in MODULES


def test_images_are_built_from_all_packages_of_the_wheel() -> None:
    copied = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert set(WHEEL["packages"]) - copied == set()

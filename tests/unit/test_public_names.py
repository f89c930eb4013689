"""The public names of quotas, telemetry and exporters: one import for each, and none that costs more than needed."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("fleetgauge.quotas", "fleetgauge.telemetry", "fleetgauge.exporters")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_can_be_imported_and_type_checkers_see_the_same_ones(package: str) -> None:
    module = importlib.import_module(package)
    stub = ast.parse((ROOT / package.replace(".", "/") / "__init__.pyi").read_text())
    seen = {
        str(name.asname): (node.module, name.name)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert set(seen) == set(module.__all__)
    for public, (home, name) in seen.items():
        assert getattr(module, public) is getattr(importlib.import_module(str(home)), str(name))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_that_is_not_public_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        importlib.import_module(package).nothing  # noqa: B018


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "spared"),
    [
        ("import fleetgauge.quotas", ("fleetgauge.quotas.metrics.metrics", "fleetgauge.quotas.entity", "asyncio")),
        (
            "from fleetgauge.quotas import Metrics",
            ("fleetgauge.quotas.managers", "fleetgauge.quotas.drivers", "asyncio"),
        ),
        (
            "from fleetgauge.exporters import Delivered, Options",
            ("fleetgauge.exporters.delivery", "structlog", "google", "grpc", "pyarrow"),
        ),
        (
            "import fleetgauge.telemetry.push_record",
            ("fleetgauge.quotas", "fleetgauge.telemetry.manager", "kio", "google", "re2"),
        ),
        (
            "import fleetgauge.telemetry.catalogue.dialects",
            ("fleetgauge.quotas", "fleetgauge.telemetry.manager", "kio", "google", "re2"),
        ),
    ],
)
def test_an_import_brings_nothing_that_it_does_not_need(statement: str, spared: tuple[str, ...]) -> None:
    program = f"import sys; {statement}; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not set(spared) & set(found.stdout.split())


def test_quotas_needs_no_other_room_than_base() -> None:
    program = "import sys; import fleetgauge.quotas as q; [getattr(q, name) for name in q.__all__]; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {name.split(".")[1] for name in found.stdout.split() if name.startswith("fleetgauge.")}
    assert loaded - {"compiled__mypyc"} == {"base", "quotas"}

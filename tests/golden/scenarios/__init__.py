"""Every scenario by name: what it is recorded from."""

from importlib import import_module
from pathlib import Path

from golden.scenarios.scenario import SCENARIOS

for path in sorted(Path(__file__).parent.glob("*.py")):
    if not path.stem.startswith("_"):
        import_module(f"golden.scenarios.{path.stem}")

__all__ = ["SCENARIOS"]

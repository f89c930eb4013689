"""Case files: a configuration, and steps with what was seen of each. JSON, an answer or a counter a line."""

import json
from pathlib import Path
from typing import Any

from golden.driver import GoldenNode

DIRECTORY = Path(__file__).parent / "cases"


def names() -> list[str]:
    """Of all cases."""
    return sorted(path.stem for path in DIRECTORY.glob("*.json"))


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DIRECTORY / f"{name}.json").read_text())
    return found


def write(name: str, about: str, config: str, steps: list[dict[str, Any]]) -> None:
    case = {"about": about, "config": config.strip().splitlines(), "steps": steps}
    (DIRECTORY / f"{name}.json").write_text(json.dumps(case, indent=1) + "\n")


def replay(case: dict[str, Any]) -> list[dict[str, Any]]:
    """The case's steps with what is seen of them now."""
    node = GoldenNode("\n".join(case["config"]))
    try:
        return [_again(node, step) for step in case["steps"]]
    finally:
        node.close()


def _again(node: GoldenNode, step: dict[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in step.items() if key not in ("note", "seen")}
    # Through JSON, as what it is compared with.
    return {**step, "seen": json.loads(json.dumps(node.perform(given)))}

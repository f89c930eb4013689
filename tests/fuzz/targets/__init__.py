"""The fuzz targets, one module a layer. Everything of ours that reads strangers' bytes is here."""

import importlib
from typing import Final

from fuzz.target import Target

NAMES: Final = (
    "codecs", "decode", "frames", "gateway", "labels", "match", "node", "repair", "requests", "topic_record",
    "validate",
)  # fmt: skip


def load(name: str) -> Target:
    """The target of a module; imported when it is asked for, since instrumenting what it does not need takes long."""
    target = importlib.import_module(f"fuzz.targets.{name}").TARGET
    assert isinstance(target, Target)
    return target

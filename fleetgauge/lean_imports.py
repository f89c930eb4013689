"""Imports libraries without the large optional ones that they would load merely because those are installed.

Each process of a node calls these before its other imports.
"""

import importlib
import sys


def import_structlog() -> None:
    """Imports structlog without rich, which is installed for the command line. It would be 5 MiB per process, and half
    of structlog's import, for tracebacks that `fleetgauge.logs` writes itself.
    """
    _import_without("structlog", "rich")


def import_kio() -> None:
    """Imports kio without hypothesis, which developers have: 20 MiB for strategies that tests of kio's users need."""
    _import_without("kio.static.primitive", "hypothesis")


def _import_without(module: str, optional: str) -> None:
    if module in sys.modules or optional in sys.modules:
        importlib.import_module(module)
        return
    sys.modules[optional] = None  # type: ignore[assignment]  # the documented mark of a module that cannot be imported
    try:
        importlib.import_module(module)
    finally:
        del sys.modules[optional]

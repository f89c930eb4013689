"""Imports structlog without rich, which it would load merely because that is installed for the command line.

Each process of a node calls this before its other imports: rich would be 5 MiB per process and half of structlog's
import time, for tracebacks that `node.logs` writes itself.
"""

import importlib
import sys


def import_structlog() -> None:
    """Imports structlog; a no-op if it is imported already."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # the documented mark of a module that cannot be imported
    try:
        importlib.import_module("structlog")
    finally:
        del sys.modules["rich"]

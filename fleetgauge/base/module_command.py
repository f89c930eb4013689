"""The command of a process that runs a module of this package."""

import sys


def module_command(module: str) -> tuple[str, ...]:
    """The command that runs a module with this interpreter.

    `-P`: the working directory is no place to import from, so that a `base/` or `telemetry/` that lies there is not
    taken for ours. PYTHONPATH still is one, for reporters and exporters of an operator's own.
    """
    return (sys.executable, "-P", "-m", module)

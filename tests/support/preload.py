"""C libraries that stand before a process's own libc, by LD_PRELOAD: `tests/support/<name>/<name>.c`."""

import subprocess
from pathlib import Path

from support.kafka_jars import SETUP, alone
from support.waiting import PATIENCE_S


def preload(name: str, **environment: str) -> dict[str, str]:
    """The environment of a process with this library, made by the C compiler once, and with these variables of it."""
    library = SETUP / f"{name.replace('_', '-')}.so"
    source = Path(__file__).with_name(name) / f"{name}.c"
    with alone(library.name):
        if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
            command = ["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
            subprocess.run(command, check=True, timeout=PATIENCE_S)
    return {"LD_PRELOAD": str(library), **environment}

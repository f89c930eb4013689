"""C libraries that stand before a process's own libc, by LD_PRELOAD: `tests/support/<name>/<name>.c`."""

import subprocess
from pathlib import Path

from support.built import built
from support.waiting import PATIENCE_S


def preload(name: str, **environment: str) -> dict[str, str]:
    """The environment of a process with this library, made by the C compiler once, and with these variables of it."""
    source = Path(__file__).with_name(name) / f"{name}.c"

    def compile_it(target: Path) -> None:
        command = ["cc", "-shared", "-fPIC", "-o", f"{target}/{name}.so", str(source), "-ldl"]
        subprocess.run(command, check=True, timeout=PATIENCE_S)

    return {"LD_PRELOAD": f"{built(name, compile_it, source)}/{name}.so", **environment}

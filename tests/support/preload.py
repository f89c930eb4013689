"""C libraries that stand before a process's own libc, by LD_PRELOAD: `tests/support/<name>/<name>.c`."""

import subprocess
from pathlib import Path

from support.built import built


def preload(name: str, **environment: str) -> dict[str, str]:
    """The environment of a process with this library, made by the C compiler once, and with these variables of it."""
    source = Path(__file__).with_name(name) / f"{name}.c"

    def compile_it(target: Path) -> None:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", f"{target}/{name}.so", str(source), "-ldl"], check=True)

    return {"LD_PRELOAD": f"{built(name, compile_it, source)}/{name}.so", **environment}

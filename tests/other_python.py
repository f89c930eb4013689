"""Runs the tests that need no Java on another interpreter, on installed wheels: the compiled one, then the pure one.

    python tests/other_python.py python3.13

Each wheel stands in an environment of its own, .results/python-<version>-<form>, with the libraries of
requirements.lock; a further run keeps the environment and installs the wheel anew.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UV = str(Path(sys.executable).with_name("uv"))
COMPILE_BY_FORM = {"compiled": "1", "pure": "0"}
"""FLEETGAUGE_COMPILE of each form."""
NO_JAVA = "not spark and not soak"
TESTS = ("tests/unit", "tests/golden", "tests/property", "tests/fuzz", "tests/integration/wire")
SHOW = "import sys, fleetgauge; print(sys.version.split()[0], fleetgauge.__file__)"


def main(interpreter: str) -> int:
    """Runs the tests in both forms; the exit code."""
    found = shutil.which(interpreter)
    if found is None:
        print(
            f"{interpreter} is not there. Install one (pyenv install 3.13, uv python install 3.13, or your system's "
            "package) and name it: make test-python PYTHON=/path/to/python3.13"
        )
        return 2
    version = run(found, "-c", "import platform; print(platform.python_version())", quiet=True)
    return max(tested(found, version, form) for form in COMPILE_BY_FORM)


def tested(interpreter: str, version: str, form: str) -> int:
    """Runs the tests on one form of the wheel; the exit code."""
    environment = ROOT / ".results" / f"python-{version}-{form}"
    install(interpreter, environment, form)
    safe = {**os.environ, "PYTHONSAFEPATH": "1"}  # the checkout's modules are not found
    python = str(environment / "bin" / "python")
    where = run(python, "-m", "fleetgauge", "--version", quiet=True, env=safe)
    print(f"{version}, {form}: {where}", flush=True)
    marked = NO_JAVA if form == "pure" else f"{NO_JAVA} and not replaces"
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "-m", marked, *TESTS]
    return subprocess.run(command, cwd=ROOT, env=safe, check=False).returncode


def install(interpreter: str, environment: Path, form: str) -> None:
    """Makes the environment with the locked libraries, and installs the wheel."""
    if not (environment / "bin" / "python").exists():
        run(UV, "venv", "--quiet", "--python", interpreter, str(environment))
    into = {**os.environ, "VIRTUAL_ENV": str(environment), "FLEETGAUGE_COMPILE": COMPILE_BY_FORM[form]}
    run(UV, "pip", "install", "--quiet", "--require-hashes", "-r", "requirements.lock", env=into)
    run(UV, "pip", "install", "--quiet", "--no-deps", "--reinstall-package", "fleetgauge", ".", env=into)


def run(*command: str, env: dict[str, str] | None = None, quiet: bool = False) -> str:
    """Runs a command that has to succeed; what it prints, if `quiet`."""
    done = subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE if quiet else None, text=True)
    return (done.stdout or "").strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

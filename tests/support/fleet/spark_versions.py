"""Interpreters with the versions of PySpark that tests run: the locked one, and others in environments of their own."""

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from support.built import BUILD_WITHIN_S, ROOT, built

OLDEST: Final = "4.0.0"
NEWEST: Final = version("pyspark")
"""The locked one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkPython:
    """An interpreter that imports this checkout, and a version of PySpark.

    Attributes:
        executable: the interpreter.
        environment: variables that it is started with.
    """

    executable: Path
    environment: dict[str, str]


LOCKED: Final = SparkPython(executable=Path(sys.executable), environment=dict(os.environ))


def spark_python(pyspark: str) -> SparkPython:
    """The interpreter for a version of PySpark, whose environment is made once.

    Raises:
        subprocess.CalledProcessError: a package could not be installed.
    """
    if pyspark == NEWEST:
        return LOCKED
    project, lock = ROOT / "pyproject.toml", ROOT / "requirements.lock"
    packages = [line.removesuffix(" \\") for line in lock.read_text().splitlines() if line[:1].isalpha()]

    def install(home: Path) -> None:
        venv.create(home)
        locked = home / "locked.txt"
        locked.write_text("\n".join(each for each in packages if not each.startswith("pyspark==")))
        options = ("--quiet", "--python", home / "bin" / "python", "--constraint", locked)
        own = ("--requirements", project, "--extra", "kafka", "--extra", "spark", f"pyspark=={pyspark}")
        uv = Path(sys.executable).with_name("uv")
        subprocess.run([uv, "pip", "install", *options, *own], check=True, timeout=BUILD_WITHIN_S, cwd=home)

    home = built(f"pyspark-{pyspark}-environment", install, project, lock, sys.version)
    # Neither the shared Spark of support.jvm nor its archive of classes: both are of the locked version.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return SparkPython(executable=home / "bin" / "python", environment={**kept, "PYTHONPATH": str(ROOT)})

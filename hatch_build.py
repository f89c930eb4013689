"""The build hook: with FLEETGAUGE_COMPILE=1 a wheel also holds the hot modules compiled by mypyc, from the same source.

    FLEETGAUGE_COMPILE=1 pip install .

Python then prefers the compiled module to the source beside it. Without the variable nothing is compiled and no
compiler is needed. Which modules are hot stands in pyproject.toml (`tool.hatch.build.targets.wheel.hooks.custom`).
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "FLEETGAUGE_COMPILE"
REQUIRED = ["mypy[mypyc]>=1.14", "setuptools>=77"]
"""Beside a C compiler."""


class CompiledModules(BuildHookInterface):
    """Adds what `compile_modules` makes to a wheel, where it is asked for."""

    def dependencies(self) -> list[str]:
        """What the build needs beside hatchling."""
        return REQUIRED if self._is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the wheel is put together; an editable install stays pure."""
        if version == "editable" or not self._is_wanted():
            return
        directory = Path(tempfile.mkdtemp(prefix="fleetgauge-compiled-"))
        self._made = directory
        for built in compile_modules(Path(self.root), self.config["modules"], directory):
            build_data["force_include"][str(built)] = str(built.relative_to(directory))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called when the wheel is there."""
        if hasattr(self, "_made"):
            shutil.rmtree(self._made)

    def _is_wanted(self) -> bool:
        return os.environ.get(VARIABLE, "") not in ("", "0")


def compile_modules(root: Path, modules: list[str], directory: Path) -> list[Path]:
    """Compiles modules, given as paths below `root`, into `directory`; returns the files made.

    Raises:
        SystemExit: mypyc does not take a module.
        setuptools.errors.CompileError: the C compiler failed, or there is none.
    """
    from mypyc.build import mypycify
    from setuptools import Distribution

    before = Path.cwd()
    os.chdir(root)  # mypy finds modules from there
    try:
        with tempfile.TemporaryDirectory() as made:
            flags = ["--config-file=", "--ignore-missing-imports", f"--cache-dir={made}"]
            extensions = mypycify([*flags, *modules], target_dir=made)
            command: Any = Distribution({"name": "fleetgauge", "ext_modules": extensions}).get_command_obj("build_ext")
            command.build_lib, command.build_temp = str(directory), made
            command.ensure_finalized()
            command.run()
    finally:
        os.chdir(before)
    return sorted(path for path in directory.rglob("*") if path.suffix in (".so", ".pyd"))

"""The build hook: a wheel also holds the modules of the push path and the quota engine, compiled by mypyc.

    pip install .                           compiled where there is a C compiler, otherwise pure Python with one warning
    FLEETGAUGE_COMPILE=1 pip install .      compiled; it is an error if that fails
    FLEETGAUGE_COMPILE=0 pip install .      pure Python; the build needs neither mypy nor setuptools

Compiled modules are made of the same source, which the wheel holds too: Python prefers the compiled one. An editable
install is pure. `fleetgauge --version` says which form is installed. pyproject.toml has the list of modules
(`tool.hatch.build.targets.wheel.hooks.custom`).
"""

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "FLEETGAUGE_COMPILE"
REQUIRED = ["mypy[mypyc]>=2.4", "setuptools>=77"]
"""Beside a C compiler and Python's headers."""
GROUP = "fleetgauge.compiled"
"""The library that has the code of all compiled modules: without a name it would stand beside the package."""


class CompiledModules(BuildHookInterface):
    """Adds what `compile_modules` makes to a wheel."""

    def dependencies(self) -> list[str]:
        """What the build needs beside hatchling."""
        return REQUIRED if self._is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the wheel is put together."""
        root, modules = Path(self.root), self.config["modules"]
        check_modules(root, modules)
        if version == "editable" or not self._is_wanted():
            return
        self._made = Path(tempfile.mkdtemp(prefix="fleetgauge-compiled-"))
        try:
            made = compile_modules(root, modules, self._made)
        except (Exception, SystemExit) as error:  # mypyc exits where it does not take a module
            if self._is_required():
                raise
            self.app.display_warning(f"fleetgauge is built as pure Python, since it cannot be compiled here: {error}")
            return
        for built in made:
            build_data["force_include"][str(built)] = str(built.relative_to(self._made))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called when the wheel is there."""
        if hasattr(self, "_made"):
            shutil.rmtree(self._made)

    def _is_wanted(self) -> bool:
        return os.environ.get(VARIABLE) != "0"

    def _is_required(self) -> bool:
        return os.environ.get(VARIABLE, "") not in ("", "0")


def check_modules(root: Path, modules: Iterable[str]) -> None:
    """Checks that every module that is to be compiled is there.

    Raises:
        ValueError: one is not; the text names it.
    """
    missing = [name for name in modules if not (root / name).is_file()]
    if missing:
        raise ValueError(
            f"pyproject.toml lists modules to compile that do not exist: {', '.join(missing)}. After a module was "
            "moved or removed, change modules of [tool.hatch.build.targets.wheel.hooks.custom]."
        )


def compile_modules(root: Path, modules: list[str], directory: Path) -> list[Path]:
    """Compiles modules, given as paths below `root`, into `directory`; returns the files made.

    Raises:
        SystemExit: mypyc does not take a module; it has printed why.
        setuptools.errors.CompileError: the C compiler failed, or there is none.
    """
    before = Path.cwd()
    os.chdir(root)  # mypy finds modules from there
    try:
        with tempfile.TemporaryDirectory() as made:
            _try_compiler(Path(made))
            from mypyc.build import mypycify

            # An isolated build lacks the libraries, so their types are unknown. What follows from that in modules that
            # are only imported is not an error of the build.
            flags = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
            extensions = mypycify(
                [*flags, f"--cache-dir={made}/mypy", *modules], target_dir=made, debug_level="0", group_name=GROUP
            )
            _build(extensions, directory, Path(made))
    finally:
        os.chdir(before)
    return sorted(path for path in directory.rglob("*") if path.suffix in (".so", ".pyd"))


def _try_compiler(made: Path) -> None:
    """Compiles next to nothing: a missing compiler shows at once, and not after mypyc's work."""
    from setuptools import Extension

    source = made / "nothing.c"
    source.write_text("#include <Python.h>\nPyMODINIT_FUNC PyInit_nothing(void) { return NULL; }\n")
    _build([Extension("nothing", [str(source)])], made / "nothing", made)


def _build(extensions: list[Any], directory: Path, made: Path) -> None:
    from setuptools import Distribution

    command: Any = Distribution({"name": "fleetgauge", "ext_modules": extensions}).get_command_obj("build_ext")
    command.build_lib, command.build_temp = str(directory), str(made)
    command.ensure_finalized()
    command.run()

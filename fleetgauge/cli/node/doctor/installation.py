"""Checks what is installed: Fleetgauge's form, the libraries of each extra, and Java for Spark."""

import importlib.util
import platform
import re
from collections import defaultdict
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Final

from fleetgauge.cli.node.doctor.finding import Finding, error, ok, skipped, warning

_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+)[^;]*(?:;.*?extra == '(\w+)')?")


def installed_form() -> str:
    """Form of this installation: `hatch_build.py` compiles `base.clock` with the other modules, or none."""
    clock = importlib.util.find_spec("fleetgauge.base.clock")
    is_compiled = clock is not None and str(clock.origin).endswith(tuple(EXTENSION_SUFFIXES))
    return "compiled" if is_compiled else "pure Python"


def check_installation() -> Iterator[Finding]:
    """Fleetgauge, Python, the extras, and Java where PySpark is installed."""
    yield _form()
    yield ok("python", f"{platform.python_implementation()} {platform.python_version()}, {platform.platform()}")
    yield from _extras()
    yield _java()


def _form() -> Finding:
    form = installed_form()
    installed = f"{version('fleetgauge')} ({form})"
    if form == "compiled":
        return ok("fleetgauge", installed)
    return warning(
        "fleetgauge",
        f"{installed}: a push costs 1.2 to 2.5 times the CPU time of compiled modules",
        "Install a compiled wheel, or install with a C compiler and Python's headers and FLEETGAUGE_COMPILE=1.",
    )


def _extras() -> Iterator[Finding]:
    """One finding per extra: the versions of its libraries, or those that are missing."""
    libraries: dict[str, list[str]] = defaultdict(list)
    for requirement in requires("fleetgauge") or ():
        matched = _REQUIREMENT.match(requirement)
        if matched is not None:
            libraries[matched[2] or ""].append(matched[1])
    for extra, names in libraries.items():
        versions = {name: _version(name) for name in names}
        missing = [name for name, number in versions.items() if number is None]
        check = f"extra {extra}" if extra else "libraries"
        present = ", ".join(f"{name} {number}" for name, number in versions.items() if number is not None)
        if not missing:
            yield ok(check, present)
        elif extra:
            yield skipped(check, f"not installed: {', '.join(missing)}; pip install 'fleetgauge[{extra}]' adds it")
        else:
            yield error(
                check, f"missing: {', '.join(missing)}", "Install fleetgauge with its dependencies, by pip or uv."
            )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _java() -> Finding:
    if importlib.util.find_spec("pyspark") is None:
        return skipped("java", "only Spark needs it, and the extra spark is not installed")
    session = importlib.import_module(
        "fleetgauge.fleet.spark.session"
    )  # as fleetgauge.cli does: the service runs without fleet
    try:
        session.check_java()
    except importlib.import_module("fleetgauge.fleet.errors").JavaError as problem:
        return warning(
            "java", str(problem), "Install Java 17, 21 or 25 for fleet commands that use Spark, or set JAVA_HOME."
        )
    return ok("java", "recent enough for Spark")

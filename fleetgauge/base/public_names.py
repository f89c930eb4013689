"""Public names of a package that are imported when they are first used.

A package hands out the names of all its modules, while importing one of its modules (in the listener, on a Spark
executor) stays as cheap as that module. Type checkers and editors read the names from the package's `__init__.pyi`.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def public_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], list[str]]:
    """Returns the `__getattr__` (PEP 562) and the `__all__` of a package.

    Args:
        package: its name, `fleetgauge.` first.
        modules: names, separated by blanks, by the module below `fleetgauge` that has them.
    """
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"fleetgauge.{module_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, sorted(module_of)


def require_full_name(name: str) -> None:
    """Called by packages that a checkout also has under a short name, as a link, with their `__name__`.

    Raises:
        ImportError: it is imported by the short name, which an installation does not have.
    """
    if "." not in name:
        raise ImportError(f"the package is fleetgauge.{name}: import it by this name. {name}/ is a link to its folder.")

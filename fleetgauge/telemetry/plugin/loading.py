"""Loads the reporters named in `metric.reporters`."""

import importlib
from importlib.metadata import entry_points
from typing import Any, Final

from fleetgauge.base.errors import InvalidConfigError, import_problem
from fleetgauge.telemetry.plugin.api import MetricsReporter

ENTRY_POINT_GROUP: Final = "fleetgauge.metric_reporters"

_METHODS: Final = ("configure", "init", "metric_change", "metric_removal", "context_change", "close")


def load_reporter(name: str) -> MetricsReporter:
    """Instantiates the reporter with this name.

    Args:
        name: `package.module.Class`, `package.module:Class`, or the name of an entry point of the group
            `fleetgauge.metric_reporters`.

    Raises:
        InvalidConfigError: it is not found, cannot be imported or instantiated without arguments, or is not a reporter.
    """
    factory = _find(name)
    if not callable(factory):
        raise _cannot(name, f"{factory!r} is not a class")
    try:
        reporter = factory()
    except Exception as error:
        raise _cannot(name, f"it cannot be instantiated without arguments: {import_problem(error)}") from error
    missing = [method for method in _METHODS if not callable(getattr(reporter, method, None))]
    if missing:
        raise _cannot(name, f"it is not a MetricsReporter: it lacks {', '.join(missing)}")
    return reporter  # type: ignore[no-any-return]


def _find(name: str) -> Any:
    for entry_point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        try:
            return entry_point.load()
        except Exception as error:
            raise _cannot(
                name, f"its entry point {entry_point.value} does not load: {import_problem(error)}"
            ) from error
    module_name, separator, class_name = name.rpartition(":" if ":" in name else ".")
    if not separator or not module_name or not class_name:
        raise _cannot(name, f"it is neither a dotted path nor an entry point of the group {ENTRY_POINT_GROUP}")
    try:
        return getattr(importlib.import_module(module_name), class_name)
    except AttributeError as error:
        raise _cannot(name, f"the module {module_name} has no {class_name}") from error
    except Exception as error:
        raise _cannot(name, f"the module {module_name} cannot be imported: {import_problem(error)}") from error


def _cannot(name: str, reason: str) -> InvalidConfigError:
    return InvalidConfigError(f"Invalid value {name} for metric.reporters: {reason}")

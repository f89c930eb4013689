"""What a public signature takes, returns or raises is public too: no user of the libraries needs an inner module."""

import builtins
import importlib
import inspect
import re
import typing
from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.replaces  # compiled functions have no signature to read

PACKAGES = ("fleetgauge.quotas", "fleetgauge.telemetry", "fleetgauge.exporters")
OPAQUE = {"Push", "ClientInstance", "InstanceRegister", "DepartedClients"}
"""Passed from one call of the manager to another; what they hold is the package's own."""
OF_CONSTRUCTORS_THAT_NO_USER_CALLS = {("Sensor", "Registry"), ("SampledStat", "Sample")}


def public(package: str) -> dict[str, Any]:
    module = importlib.import_module(package)
    return {name: getattr(module, name) for name in module.__all__}


KNOWN = [found for package in PACKAGES for found in public(package).values()]


def classes_in(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and typing.get_origin(hint) is None:
        yield hint
    for part in hint if isinstance(hint, list | tuple) else typing.get_args(hint):
        yield from classes_in(part)


def functions_of(found: Any) -> Iterator[Any]:
    """The function; or the public methods, properties and fields of the class."""
    if inspect.isfunction(found):
        yield found
    if inspect.isclass(found):
        yield found
        for name, member in vars(found).items():
            if name == "__init__" or not name.startswith("_"):
                function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
                if inspect.isfunction(function):
                    yield function


def hidden_classes(name: str, found: Any) -> set[str]:
    hints = [hint for each in functions_of(found) for hint in typing.get_type_hints(each).items()]
    needed = {each for key, hint in hints if not key.startswith("_") for each in classes_in(hint)}
    return {
        each.__name__
        for each in needed
        if each.__module__.startswith("fleetgauge.")
        and not each.__name__.startswith("_")
        and not any(each is known for known in KNOWN)
        and (name, each.__name__) not in OF_CONSTRUCTORS_THAT_NO_USER_CALLS
    }


def hidden_errors(found: Any) -> set[str]:
    texts = [inspect.getdoc(each) or "" for each in functions_of(found)]
    raised = {error for text in texts for error in re.findall(r"\b[A-Z]\w+Error\b", text.partition("Raises:")[2])}
    return {
        each
        for each in raised
        if not hasattr(builtins, each) and each not in {one.__name__ for one in KNOWN if inspect.isclass(one)}
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_every_class_of_a_public_signature_and_every_error_that_it_raises_is_public(package: str) -> None:
    hidden = {
        name: each
        for name, found in public(package).items()
        if name not in OPAQUE and (each := hidden_classes(name, found) | hidden_errors(found))
    }
    assert hidden == {}


def test_the_versions_that_a_quota_of_mutations_is_asked_with_are_public() -> None:
    quotas = importlib.import_module("fleetgauge.quotas")
    strict = {name: getattr(quotas, name) for name in quotas.__all__ if name.endswith("_STRICT_SINCE_VERSION")}
    assert strict == {
        "CREATE_PARTITIONS_STRICT_SINCE_VERSION": 3,
        "CREATE_TOPICS_STRICT_SINCE_VERSION": 6,
        "DELETE_TOPICS_STRICT_SINCE_VERSION": 5,
    }


@pytest.mark.parametrize("name", ["Push", "ErrorCode", "SenderLimits", "InvalidConfigError", "InvalidRequestError"])
def test_telemetry_alone_has_what_its_calls_take_return_and_raise(name: str) -> None:
    assert name in public("fleetgauge.telemetry")

"""Requests of admin tools: read in full, or only their resource."""

import sys
from io import BytesIO
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.serial import entity_writer

from fleetgauge.wire.messages.codec import Request, read_admin_request, read_only_resource

VERSIONS = [(32, 1), (32, 2), (32, 3), (32, 4), (33, 0), (33, 1), (33, 2), (44, 0), (44, 1)]
PARTS = {32: "DescribeConfigsResource", 33: "AlterConfigsResource", 44: "AlterConfigsResource"}


def request(api_key: int, version: int, *names: str) -> Request:
    schema: Any = load_request_schema(api_key, version)
    part = getattr(sys.modules[schema.__module__], PARTS[api_key])
    keys: dict[str, Any] = {"configuration_keys": ("metrics",)} if api_key == 32 else {"configs": ()}
    resources = tuple(part(resource_type=16, resource_name=name, **keys) for name in names)
    fields = {} if api_key == 32 else {"validate_only": False}
    out = BytesIO()
    entity_writer(schema)(out, schema(resources=resources, **fields))
    return Request(api_key, version, 1, "test", out.getvalue())


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
@pytest.mark.parametrize("name", ["", "S1", "é" * 100, "n" * 5_000])
def test_the_only_resource_is_the_one_that_the_whole_request_has(api_key: int, version: int, name: str) -> None:
    asked = request(api_key, version, name)
    (whole,) = read_admin_request(asked).resources
    assert read_only_resource(asked) == (whole.resource_type, whole.resource_name) == (16, name)


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
@pytest.mark.parametrize("names", [(), ("a", "b"), tuple("abcdefghij") * 20])
def test_none_or_several_resources_are_no_only_one(api_key: int, version: int, names: tuple[str, ...]) -> None:
    assert read_only_resource(request(api_key, version, *names)) is None

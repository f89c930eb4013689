"""DeleteAcls: what one request may cost."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from fleetgauge.base.clock import MockTime
from fleetgauge.node.authorizer import acls
from fleetgauge.node.authorizer.acls import Acl, AclOperation, PatternType, Permission, ResourceType
from fleetgauge.node.authorizer.settings import AuthorizationSettings
from fleetgauge.node.listener.apis.acls import AclApis
from fleetgauge.node.state.authorization import Authorization, to_records
from fleetgauge.node.state.node_state import NodeState
from fleetgauge.node.state.store import RecordKind, StateStore
from fleetgauge.wire.messages.codec import Request

DELETE, VERSION = 31, 3
POLICY_VIOLATION = 44
TOPICS = [
    Acl(
        resource_type=ResourceType.TOPIC,
        resource_name=f"t{number}",
        pattern_type=PatternType.LITERAL,
        principal="User:a",
        host="*",
        operation=AclOperation.READ,
        permission=Permission.ALLOW,
    )
    for number in range(20)
]


def deleted(tmp_path: Path, *names: str | None) -> tuple[list[tuple[int, int]], int]:
    """Error and number of matches of each filter on these topics, and how many ACLs there are afterwards."""
    schema: Any = load_request_schema(DELETE, VERSION)
    make = sys.modules[schema.__module__].DeleteAclsFilter
    filters = tuple(
        make(
            resource_type_filter=ResourceType.TOPIC,
            resource_name_filter=name,
            pattern_type_filter=PatternType.LITERAL,
            principal_filter=None,
            host_filter=None,
            operation=AclOperation.ANY,
            permission_type=Permission.ANY,
        )
        for name in names
    )
    store = StateStore(tmp_path / "state.db")
    store.change(lambda _: {RecordKind.ACLS: to_records(TOPICS)})
    request = Request(DELETE, VERSION, 5, "test", b"")

    async def run() -> bytes:
        state, authorization = (
            NodeState(store, MockTime()),
            Authorization(AuthorizationSettings(is_enabled=True), MockTime()),
        )
        state.add(authorization)
        body = schema(filters=filters)
        response, _ = await state.run(lambda transaction: AclApis(authorization).serve(request, body, transaction))
        return response

    answer_schema: Any = load_response_schema(DELETE, VERSION)
    message, _ = entity_reader(answer_schema)(asyncio.run(run()), 9)
    found = [(each.error_code.value, len(each.matching_acls)) for each in message.filter_results]
    return found, len(store.read().get(RecordKind.ACLS, {}))


def test_filters_that_compare_too_much_are_refused_and_nothing_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,000 filters on 10,000 ACLs took a minute of the only thread, and an answer of gigabytes."""
    monkeypatch.setattr(acls, "MAX_COMPARISONS", 50)
    assert deleted(tmp_path, None, None, None) == ([(POLICY_VIOLATION, 0)] * 3, 20)
    assert deleted(tmp_path, None, None) == ([(0, 20)] * 2, 0)


def test_a_filter_that_names_its_resource_is_compared_with_the_acls_of_that_name_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acls, "MAX_COMPARISONS", 50)
    names = [f"t{number}" for number in range(15)]
    assert deleted(tmp_path, *names, "unknown") == ([(0, 1)] * 15 + [(0, 0)], 5)

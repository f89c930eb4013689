"""`fleetgauge config --changed` of a running node, and a new node that declares what it prints."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from support.brokers.admin_client import CLIENT_METRICS, CREATE_ACLS, DESCRIBE_ACLS, AdminClient
from support.programs.node import Node, run_cli

pytestmark = pytest.mark.integration

CONFIG = 'authorizer.class.name = "standard"\nsuper.users = "User:ANONYMOUS"\n'
EVERY_ACL = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
EVERY_ENTRY = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
SHA_512 = 2
STRANGE = 'a/b%\n\x7f\u202eé."]'


def change(admin: AdminClient) -> None:
    """Sets something of each kind."""
    salted = hashlib.pbkdf2_hmac("sha512", b"secret", b"salt", 4_096)
    assert admin.set("lagging", metrics="org.apache.kafka.consumer.", interval_ms="5000", match="client_id=b.*")[0] == 0
    assert admin.set(STRANGE, metrics="")[0] == 0
    limits: dict[str, float | None] = {"request_percentage": 12.5, "producer_byte_rate": 1024.0}
    assert admin.alter_quotas(([("user", STRANGE), ("client-id", None)], limits))[0][0] == 0
    assert admin.alter_scram(upsert=[(STRANGE, SHA_512, 4_096, b"salt", salted)])[STRANGE][0] == 0
    for operation, permission in ((3, 3), (4, 3), (8, 2)):
        pattern = {"resource_type": 2, "resource_name": "ord", "resource_pattern_type": 4}
        entry = {"principal": "User:CN=a,O=b", "host": "10.0.0.9", "operation": operation}
        made = admin.part(CREATE_ACLS, "AclCreation", **pattern, **entry, permission_type=permission)
        assert admin.send(CREATE_ACLS, 3, creations=(made,)).results[0].error_code.value == 0


def described(admin: AdminClient) -> dict[str, Any]:
    """What tools are shown of each kind, but for the origin of values."""
    names = admin.names()
    configs = admin.describe(*((CLIENT_METRICS, name) for name in names))
    return {
        "subscriptions": {
            name: {each.name: each.value for each in found.configs} for name, found in zip(names, configs, strict=True)
        },
        "quotas": admin.quotas(),
        "users": admin.scram(),
        "acls": repr(admin.send(DESCRIBE_ACLS, 3, **EVERY_ACL, **EVERY_ENTRY).resources),
    }


def test_a_node_that_declares_the_state_of_another_gives_tools_the_same_answers(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with Node(first, config=CONFIG) as node, AdminClient(node.port) as admin:
        change(admin)
        changed = described(admin)
        options = ("--config", str(node.config_file), "--override", f"log.dirs={node.data}")
        printed = run_cli("config", "--changed", *options, "--credentials")
    assert printed.stderr == ""
    with Node(second, config=CONFIG + printed.stdout) as node, AdminClient(node.port) as admin:
        assert described(admin) == changed
        assert sorted(changed["subscriptions"]) == sorted(["default", "lagging", STRANGE])

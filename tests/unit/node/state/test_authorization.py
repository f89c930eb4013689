"""What principals may do at a node: by the configuration's ACLs and those of tools, and by client id."""

import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from fleetgauge.base.clock import MockTime
from fleetgauge.base.errors import ConfigError
from fleetgauge.base.principal import ANONYMOUS, KafkaPrincipal
from fleetgauge.cli.node.show_config import show_config
from fleetgauge.cli.options import ConfigOptions
from fleetgauge.node.authorizer.acls import AclOperation
from fleetgauge.node.config.load import load_config
from fleetgauge.node.listener.apis.admin import OPERATIONS
from fleetgauge.node.state.authorization import Authorization, from_records, read_acl, to_records
from fleetgauge.wire.api_table import ADMIN_KEYS

OPS, ORDERS = KafkaPrincipal("User", "ops"), KafkaPrincipal("User", "orders")
HERE = "10.0.0.1"
ENABLED = "authorizer.class.name=standard"
ACL = """
[acls.operators]
principals = ["User:ops", "User:CN=a,O=b"]
operations = "AlterConfigs"
hosts = "10.0.0.1,10.0.0.2"
[acls."nobody else"]
principals = "User:mallory"
operations = ["ALL"]
permission = "deny"
"""


def authorization(tmp_path: Path, toml: str, *overrides: str) -> Authorization:
    file = tmp_path / "fleetgauge.toml"
    file.write_text(toml)
    return Authorization(load_config(file, overrides=overrides).authorization_settings(), MockTime())


def test_without_an_authorizer_everyone_may_do_everything(tmp_path: Path) -> None:
    found = authorization(tmp_path, "")
    assert found.allows(ANONYMOUS, HERE, AclOperation.ALTER)
    assert not found.restricts_telemetry
    assert found.authorized_operations(ANONYMOUS, HERE) == sum(1 << each for each in (5, 7, 8, 9, 10, 11, 12))


def test_a_table_of_acls_stands_for_every_combination_of_its_lists(tmp_path: Path) -> None:
    found = authorization(tmp_path, ACL, ENABLED)
    assert found.allows(OPS, HERE, AclOperation.ALTER_CONFIGS)
    assert found.allows(KafkaPrincipal("User", "CN=a,O=b"), "10.0.0.2", AclOperation.DESCRIBE_CONFIGS)
    assert not found.allows(OPS, "10.0.0.3", AclOperation.ALTER_CONFIGS)
    assert not found.allows(OPS, HERE, AclOperation.ALTER)
    assert not found.allows(KafkaPrincipal("User", "mallory"), HERE, AclOperation.DESCRIBE)
    assert found.authorized_operations(OPS, HERE) == (1 << 10) + (1 << 11)
    assert len(found._settings.acls) == 5


def test_a_super_user_may_do_everything_and_nobody_else_what_no_acl_allows(tmp_path: Path) -> None:
    found = authorization(tmp_path, "", ENABLED, "super.users=User:ops;User:root")
    assert found.allows(OPS, HERE, AclOperation.ALTER)
    assert not found.allows(ORDERS, HERE, AclOperation.DESCRIBE)
    assert authorization(tmp_path, "", ENABLED, "allow.everyone.if.no.acl.found=true").allows(
        ORDERS, HERE, AclOperation.ALTER
    )


@pytest.mark.parametrize(
    ("toml", "overrides", "problem"),
    [
        (ACL, (), "set authorizer.class.name=standard"),
        ("", ("super.users=User:a",), "set authorizer.class.name=standard"),
        ("", ("telemetry.acl.required=true",), "set authorizer.class.name=standard"),
        ("", ("authorizer.class.name=com.example.Mine",), "com.example.Mine"),
        ("", (ENABLED, "super.users=alice"), "type:name"),
        ('[acls.a]\noperations = "Alter"', (ENABLED,), "needs principals"),
        ('[acls.a]\nprincipals = "User:a"', (ENABLED,), "needs operations"),
        ('[acls.a]\nprincipals = "User:a"\noperations = "Fly"', (ENABLED,), "FLY is no operation"),
        ('[acls.a]\nprincipals = "a"\noperations = "Alter"', (ENABLED,), "Could not parse principal from `a`"),
        ("[acls.a]\nprincipals = [7]", (ENABLED,), "takes text, or a list of texts"),
        ('[acls.a]\nsecret = "x"', (ENABLED,), "has the keys principals"),
        ('[client.id.patterns]\n"User:a" = "("', (), "not a pattern that RE2 supports"),
        ('[client.id.patterns]\n"a" = "x"', (), "its keys are principals"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(
    tmp_path: Path, toml: str, overrides: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem.replace("(", r"\(")):
        authorization(tmp_path, toml, *overrides)


def test_telemetry_needs_describe_only_where_that_is_asked_for(tmp_path: Path) -> None:
    acl = '[acls.a]\nprincipals = "User:orders"\noperations = "Describe"\n'
    assert not authorization(tmp_path, acl, ENABLED).restricts_telemetry
    found = authorization(tmp_path, acl, ENABLED, "telemetry.acl.required=true")
    assert found.restricts_telemetry
    with capture_logs() as logs:
        refused = [found.refuses_telemetry(each, HERE, "app", "PUSH_TELEMETRY") for each in (ORDERS, OPS, OPS)]
    assert refused == [False, True, True]
    assert found.denials == {"PUSH_TELEMETRY: DESCRIBE": 2}
    assert [(line["event"], line["principal"]) for line in logs] == [("authorization.denied", "User:ops")]


def test_a_principal_may_use_the_client_ids_of_its_pattern_alone(tmp_path: Path) -> None:
    toml = '[client.id.patterns]\n"User:orders" = "orders-[0-9]+"\n"User:*" = "[^o].*"\n'
    found = authorization(tmp_path, toml)
    assert found.restricts_telemetry

    def refused(principal: KafkaPrincipal, client_id: str) -> bool:
        return found.refuses_telemetry(principal, HERE, client_id, "GET_TELEMETRY_SUBSCRIPTIONS")

    assert [refused(ORDERS, each) for each in ("orders-1", "orders-1x", "xorders-1", "", "a")] == [0, 1, 1, 1, 1]
    assert [refused(OPS, each) for each in ("app", "orders-1", "")] == [0, 1, 1]
    with capture_logs() as logs:
        assert refused(KafkaPrincipal("User", "other"), "orders\n" + "o" * 32_000)
    assert len(logs[0]["client_id"]) <= 200
    assert found.denials["GET_TELEMETRY_SUBSCRIPTIONS: client_id"] == 7


def test_acls_of_the_state_come_back_and_what_is_none_is_left_out(tmp_path: Path) -> None:
    found = authorization(tmp_path, ACL, ENABLED)
    acls = found._settings.acls
    assert from_records(to_records(acls)) == acls
    strange: dict[str, Any] = {"{}": {}, "[]": {}, "x": {}, '{"resource_type":"CLUSTER"}': {}, "": {}}
    with capture_logs() as logs:
        assert found.usable({**to_records(acls), **strange}) == to_records(acls)
    assert len(logs) == len(strange)
    assert read_acl(next(iter(to_records(acls)))) in acls


def test_a_change_of_acls_ends_earlier_decisions(tmp_path: Path) -> None:
    found, changes = authorization(tmp_path, "", ENABLED, "telemetry.acl.required=true"), []
    found.on_change = lambda: changes.append(found.allows(OPS, HERE, AclOperation.ALTER_CONFIGS))
    records = to_records(authorization(tmp_path, ACL, ENABLED)._settings.acls)
    found.apply(records)
    found.configure(found._settings)  # no change
    found.apply({})
    assert changes == [True, False]


def test_every_api_of_tools_needs_an_operation() -> None:
    assert OPERATIONS.keys() == ADMIN_KEYS


def test_what_config_prints_are_the_same_acls_and_patterns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, printed = tmp_path / "fleetgauge.toml", tmp_path / "printed.toml"
    file.write_text('[client.id.patterns]\n"User:token \\"x\\"" = "a|b"\n' + ACL)
    show_config(ConfigOptions(config=file, override=[ENABLED, "super.users=User:a;User:CN=b,O=c"]))
    printed.write_text(capsys.readouterr().out)
    settings = load_config(printed).authorization_settings()
    assert (
        settings == load_config(file, overrides=[ENABLED, "super.users=User:a;User:CN=b,O=c"]).authorization_settings()
    )
    assert settings.client_id_patterns == {'User:token "x"': "a|b"}


@pytest.mark.parametrize("value", ["5", '["User:", ":"]', '{":": 1}', "null", pytest.param("[" * 100_000, id="nested")])
@pytest.mark.parametrize("key", ["resource_name", "principal", "host"])
def test_a_record_whose_values_are_not_text_is_ignored_and_the_others_apply(
    tmp_path: Path, key: str, value: str
) -> None:
    """Whatever another process wrote to the topic of the state, the node keeps serving."""
    found = authorization(tmp_path, "", ENABLED)
    acl = {"resource_type": "TOPIC", "resource_name": "t", "pattern_type": "LITERAL", "principal": "User:a"}
    parts = {**acl, "host": "*", "operation": "READ", "permission": "ALLOW"}
    good = json.dumps(parts)
    bad = good.replace(f'"{key}": "{parts[key]}"', f'"{key}": {value}')
    assert bad != good
    usable = found.usable({bad: {"is_set": "true"}, good: {"is_set": "true"}})
    assert list(usable) == [good]
    found.apply(usable)

"""`fleetgauge config --changed`: what tools changed, as a configuration that declares the same."""

from pathlib import Path
from typing import Any

import pytest

from fleetgauge.base.errors import ConfigError
from fleetgauge.cli.node.state import print_changed
from fleetgauge.cli.options import ConfigOptions
from fleetgauge.cluster.quotas.limits import by_entity, read_limits
from fleetgauge.node.authorizer.acls import CLUSTER_NAME, Acl, AclOperation, PatternType, Permission, ResourceType
from fleetgauge.node.config.authorization import read_acls
from fleetgauge.node.config.load import load_config
from fleetgauge.node.config.security import read_users
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.state.authorization import from_records, to_records
from fleetgauge.node.state.client_metrics import from_records as tool_changes
from fleetgauge.node.state.client_quotas import QuotaLimits
from fleetgauge.node.state.scram_users import ScramUsers, by_mechanism, read_record
from fleetgauge.node.state.store import RecordKind, State, StateStore
from fleetgauge.telemetry.subscriptions.overrides import ClientMetricsResources
from fleetgauge.wire.sasl.credentials import ScramCredential, ScramMechanism

FILE = """
authorizer.class.name = "standard"

[client-metrics.orders]
metrics = "org.apache.kafka.producer."
interval.ms = 30000

[client-metrics.untouched]
metrics = "*"
match = "client_id=x"

[quotas."/users/alice"]
request_percentage = 50
telemetry_byte_rate = 1000

[acls.tools-1]
principals = "User:ops"
operations = "AlterConfigs"
"""
STRANGE = "</script>\n\x1b[31m\x1f\x7f\u202eé\"'.="
SHA_256, SHA_512 = ScramMechanism


def credential(mechanism: ScramMechanism, password: str) -> ScramCredential:
    return ScramCredential.make(mechanism, password, iterations=4_096, salt=b"salt")


def acl(operation: AclOperation = AclOperation.READ, principal: str = "User:a", **values: Any) -> Acl:
    defaults = {"resource_type": ResourceType.TOPIC, "resource_name": "orders", "pattern_type": PatternType.LITERAL}
    entry = {"principal": principal, "host": "*", "operation": operation, "permission": Permission.ALLOW}
    return Acl(**{**defaults, **entry, **values})


ACLS = [
    acl(),
    acl(AclOperation.WRITE),
    acl(permission=Permission.DENY, host="10.0.0.1"),
    acl(principal=f"User:CN=a,O={STRANGE}", resource_name="ord", pattern_type=PatternType.PREFIXED),
    acl(AclOperation.ALTER, resource_type=ResourceType.CLUSTER, resource_name=CLUSTER_NAME),
]
CHANGED: State = {
    RecordKind.CLIENT_METRICS: {
        "orders": {"interval.ms": "5000"},
        STRANGE: {"metrics": "", "match": 'client_id="a{2,3}"', "interval.ms": " +200 "},
        "trailing.": {"metrics": "*"},
    },
    RecordKind.QUOTAS: {
        "users/alice": {"request_percentage": "12.5"},
        "users/a%2Fb/clients/<default>": {"producer_byte_rate": "1e+16", "consumer_byte_rate": "1024.0"},
        "ips/10.0.0.1": {"connection_creation_rate": "5.0"},
    },
    RecordKind.SCRAM_CREDENTIALS: {
        "alice": {SHA_512: str(credential(SHA_512, "tool"))},
        STRANGE: {SHA_256: str(credential(SHA_256, "b"))},
    },
    RecordKind.ACLS: to_records(ACLS),
}


def in_force(file: Path, stored: State) -> tuple[object, ...]:
    """What a node with this configuration and state describes."""
    config = load_config(file)
    resources = ClientMetricsResources(
        configured=config.client_metrics,
        changes=tool_changes(stored.get(RecordKind.CLIENT_METRICS, {})),
        max_resources=100,
    )
    limits = QuotaLimits(declared=by_entity(read_limits(config.quotas)))
    users = ScramUsers(
        declared=by_mechanism(read_users(config.sasl_users)),
        changed=dict(read_record(*each) for each in stored.get(RecordKind.SCRAM_CREDENTIALS, {}).items()),
    )
    quotas = dict(limits.read_record(*each) for each in stored.get(RecordKind.QUOTAS, {}).items())
    return (
        {name: {each.key: each.value for each in resources.describe(name)} for name in resources.effective()},
        limits.having(quotas).effective(),
        users.effective(),
        read_acls(config.acls) | from_records(stored.get(RecordKind.ACLS, {})),
    )


def joined(file: str, exported: str) -> str:
    """The file with the tables of an export in place of its own of the same name."""
    headers = {line for line in exported.splitlines() if line.startswith("[")}
    kept = [table for table in f"\n{file}".split("\n[") if f"[{quoted(table.partition(']')[0])}]" not in headers]
    return "\n[".join(kept) + "\n" + exported


def quoted(header: str) -> str:
    table, _, name = header.rpartition(".")
    return header if '"' in header else f'{table}."{name}"'


def exported(tmp_path: Path, capsys: pytest.CaptureFixture[str], stored: State, file: str, **options: bool) -> str:
    """What the command prints for a node with this file and state."""
    data = DataDirectory(tmp_path / "data")
    data.root.mkdir(exist_ok=True)
    store = StateStore(data.state)
    store.change(lambda _: stored)
    (tmp_path / "node.toml").write_text(file)
    print_changed(
        ConfigOptions(config=tmp_path / "node.toml", override=[f"log.dirs={data.root}"]),
        credentials=options.get("credentials", False),
    )
    return capsys.readouterr().out


def test_a_node_that_declares_what_is_printed_describes_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    users = f'[sasl.users.alice]\nscram-sha-256 = "{credential(SHA_256, "file")}"\n'
    printed = exported(tmp_path, capsys, CHANGED, FILE + users, credentials=True)
    assert "Left out" not in printed
    before = in_force(tmp_path / "node.toml", CHANGED)
    (tmp_path / "declared.toml").write_text(joined(FILE + users, printed))
    assert in_force(tmp_path / "declared.toml", {}) == before
    assert "untouched" not in printed
    assert "tools-1" not in printed


def test_a_secret_that_the_file_refers_to_is_printed_as_its_reference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(str(credential(SHA_256, "file")))
    users = f'[sasl.users.alice]\nscram-sha-256 = "${{file:{secret}}}"\n'
    printed = exported(tmp_path, capsys, CHANGED, FILE + users, credentials=True)
    assert f'scram-sha-256 = "${{file:{secret}}}"' in printed


def test_salted_hashes_are_printed_only_if_asked_for_and_their_absence_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = exported(tmp_path, capsys, CHANGED, FILE)
    assert "stored_key" not in printed
    assert "# Left out: sasl.users.alice: scram-sha-512 is a salted hash, which is a secret: --credentials" in printed
    print_changed(
        ConfigOptions(config=tmp_path / "node.toml", override=[f"log.dirs={tmp_path / 'data'}"]), credentials=False
    )
    assert "left out: sasl.users.alice" in capsys.readouterr().err


def test_what_a_configuration_cannot_declare_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored: State = {
        RecordKind.CLIENT_METRICS: {
            "narrow": {"metrics": "*", "match": "client_id=${env:X}"},
            "odd": {"metrics": "*", "match": "bogus"},
        },
        RecordKind.QUOTAS: {"users/alice": {"later_rate": "1"}},
        RecordKind.SCRAM_CREDENTIALS: {"bob": {"SCRAM-SHA3-512": "salt"}},
        RecordKind.ACLS: {**to_records([acl(principal="User:spaced ")]), "no acl": {"is_set": "true"}},
        "of a later release": {"a": {"b": "c"}},
    }
    printed = exported(tmp_path, capsys, stored, FILE, credentials=True)
    assert [line for line in printed.splitlines() if line.startswith("[")] == []
    for name in (
        "client-metrics.narrow: the configuration would read",
        "client-metrics.odd: ",
        "quotas.users/alice: this node does not accept it",
        "sasl.users.bob: this node does not accept it",
        "ACL no acl: this release does not accept it",
        "ACL ALLOW READ on TOPIC:orders (LITERAL) to User:spaced  from *: ",
        "of a later release, which this release does not know",
    ):
        assert f"# Left out: {name}" in printed


def test_the_built_in_subscription_is_declared_where_it_would_be_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    added: State = {RecordKind.CLIENT_METRICS: {"more": {"metrics": "*"}}}
    printed = exported(tmp_path, capsys, added, "")
    (tmp_path / "declared.toml").write_text(printed)
    assert in_force(tmp_path / "declared.toml", {}) == in_force(tmp_path / "node.toml", added)
    deleted: State = {RecordKind.CLIENT_METRICS: {"": {"replaces_default": "true"}}}
    assert "# Left out: client-metrics.default: a tool deleted it" in exported(tmp_path, capsys, deleted, "")


def test_acls_of_a_node_without_an_authorizer_are_named_and_do_not_spoil_its_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = exported(tmp_path, capsys, {RecordKind.ACLS: to_records(ACLS[:1])}, "")
    assert "# Left out: ACL ALLOW READ on TOPIC:orders (LITERAL) to User:a from *: it has no effect" in printed
    assert "[acls" not in printed


def test_a_node_that_no_tool_changed_says_so_and_nothing_is_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match="there is no data directory"):
        print_changed(ConfigOptions(override=[f"log.dirs={tmp_path / 'data'}"]), credentials=False)
    (tmp_path / "data").mkdir()
    print_changed(ConfigOptions(override=[f"log.dirs={tmp_path / 'data'}"]), credentials=False)
    assert capsys.readouterr().out.endswith("# Nothing.\n")
    assert list((tmp_path / "data").iterdir()) == []


def test_of_a_shared_state_the_copy_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = DataDirectory(tmp_path)
    options = [f"log.dirs={tmp_path}", "state.store=kafka", "push.log.kafka.bootstrap.servers=127.0.0.1:1"]
    with pytest.raises(ConfigError, match="has read nothing of topic fleetgauge-state yet"):
        print_changed(ConfigOptions(override=options), credentials=False)
    copy = StateStore(data.state_copy)
    copy.change(lambda _: {**CHANGED, "topic": {"": {"offset": "7"}}})
    print_changed(ConfigOptions(override=options), credentials=False)
    printed = capsys.readouterr().out
    assert "this node's copy of topic fleetgauge-state" in printed
    assert 'client-metrics."orders"' in printed
    assert "does not know" not in printed

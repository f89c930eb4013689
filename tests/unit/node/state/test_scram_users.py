"""SASL users in two layers, and their records: what tools may change, and what is in force."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from fleetgauge.base.clock import MockTime
from fleetgauge.base.errors import PolicyViolationError
from fleetgauge.node.state import scram_users
from fleetgauge.node.state.node_state import NodeState, Transaction
from fleetgauge.node.state.scram_users import NoCredentialError, NodeUsers, ScramUsers, read_record, to_records
from fleetgauge.node.state.store import StateStore
from fleetgauge.wire.sasl.credentials import CredentialStore, ScramCredential, ScramMechanism

SHA_256, SHA_512 = ScramMechanism


def credential(password: str, mechanism: ScramMechanism = SHA_256) -> ScramCredential:
    return ScramCredential.make(mechanism, password, iterations=4_096, salt=b"salt")


FILE = {"alice": (credential("file"),)}
USERS = ScramUsers(declared={"alice": {SHA_256: credential("file")}})


def test_a_salted_password_makes_the_credential_of_the_password() -> None:
    """What an admin client computes from the password, and what fleetgauge credentials makes of it."""
    salted = SHA_512.salted_password(b"secret", b"salt", 4_096)
    made = ScramCredential.from_salted_password(SHA_512, salted, salt=b"salt", iterations=4_096)
    assert made == credential("secret", SHA_512)


def test_any_name_survives_the_records() -> None:
    users = {name: {SHA_512: credential("x", SHA_512)} for name in ("</script>\n\x1b[31m\x1f\u202eé", "a,b=c", "%")}
    assert dict(read_record(*each) for each in to_records(users).items()) == users


def test_a_tools_credential_stands_over_the_files_by_user_and_mechanism_until_it_is_deleted() -> None:
    users = USERS.with_credential("alice", credential("tool")).with_credential("alice", credential("x", SHA_512))
    assert users.effective() == {"alice": {SHA_256: credential("tool"), SHA_512: credential("x", SHA_512)}}
    users = users.without_credential("alice", SHA_256)
    assert users.effective()["alice"][SHA_256] == credential("file")
    with pytest.raises(PolicyViolationError, match=r"\[sasl\.users\.alice\]"):
        users.without_credential("alice", SHA_256)
    assert users.without_credential("alice", SHA_512) == USERS
    with pytest.raises(NoCredentialError, match="does not exist"):
        USERS.without_credential("alice", SHA_512)
    with pytest.raises(NoCredentialError, match="does not exist"):
        USERS.without_credential("bob", SHA_256)


def test_the_number_of_users_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scram_users, "MAX_USERS", 1)
    users = USERS.with_credential("bob", credential("b"))
    with pytest.raises(PolicyViolationError, match="at most 1 users"):
        users.with_credential("carol", credential("c"))
    assert users.with_credential("bob", credential("d")).changed == {"bob": {SHA_256: credential("d")}}


class Node:
    """The users of one worker over the node's state."""

    def __init__(self, path: Path) -> None:
        self.installed = CredentialStore({})
        self.state = NodeState(StateStore(path / "state.db"), MockTime())
        self.users = NodeUsers(FILE, self.install)
        self.state.add(self.users)

    def install(self, store: CredentialStore) -> None:
        self.installed = store

    def set(self, user: str, made: ScramCredential) -> Callable[[Transaction], None]:
        return lambda transaction: self.users.change(transaction, lambda users: users.with_credential(user, made))


def test_changes_are_in_force_at_once_at_other_workers_later_and_after_a_restart(tmp_path: Path) -> None:
    async def run() -> None:
        node, other = Node(tmp_path), Node(tmp_path)
        await node.state.run(node.set("bob", credential("b")))
        await node.state.run(node.set("bob", credential("b", SHA_512)))
        assert node.installed.plain("bob") == credential("b", SHA_512)  # the strongest
        assert node.installed.holds("alice", credential("file"))
        assert "bob" not in other.installed
        await other.state.run(lambda transaction: transaction.refresh())
        for each in (other, Node(tmp_path)):
            assert each.installed.holds("bob", credential("b"))
        node.users.configure({})
        assert ("alice" in node.installed, "bob" in node.installed) == (False, True)

    asyncio.run(run())


def test_records_that_cannot_be_read_are_kept_not_applied_and_not_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = StateStore(tmp_path / "state.db")
    later = {"bob": {"SCRAM-SHA3-512": "secret"}, "carol": {"SCRAM-SHA-256": "salt=secret"}}
    store.change(lambda _: {"scram_credentials": later})

    async def run() -> None:
        node = Node(tmp_path)
        assert len(node.installed) == 1
        await node.state.run(node.set("dave", credential("d")))
        assert sorted(store.read()["scram_credentials"]) == ["bob", "carol", "dave"]

    asyncio.run(run())
    logged = capsys.readouterr().out
    assert "state.value_refused" in logged
    assert "secret" not in logged

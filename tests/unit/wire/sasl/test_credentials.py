"""Credentials in Kafka's vocabulary, and users who do not exist."""

import pytest

from fleetgauge.wire.sasl.credentials import CredentialStore, ScramCredential, ScramMechanism

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_credential_is_read_back_as_it_was_written_and_fits_its_password_alone(mechanism: ScramMechanism) -> None:
    made = ScramCredential.make(mechanism, "pässword", iterations=4096)
    read = ScramCredential.parse(mechanism, str(made))
    assert read == made
    assert read.fits("pässword".encode())
    assert not read.fits(b"password")


def test_neither_password_nor_keys_are_shown_in_a_log() -> None:
    made = ScramCredential.make(SHA_256, "secret", iterations=4096)
    assert repr(made) == "ScramCredential(SCRAM-SHA-256, iterations=4096)"


def test_two_credentials_of_one_password_have_nothing_in_common() -> None:
    first, second = (ScramCredential.make(SHA_256, "secret", iterations=4096) for _ in range(2))
    assert {first.salt, first.stored_key, first.server_key}.isdisjoint(
        {second.salt, second.stored_key, second.server_key}
    )


KEY = "A" * 43 + "="


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("secret", "is written salt="),
        (f"salt=AAAA,stored_key={KEY},server_key={KEY},iterations=4095", "takes 4096 to 16384"),
        (f"salt=AAAA,stored_key={KEY},server_key={KEY},iterations=16385", "takes 4096 to 16384"),
        (f"salt=AAAA,stored_key=AAAA,server_key={KEY},iterations=8192", "32 bytes each"),
        (f"salt=!!!!,stored_key={KEY},server_key={KEY},iterations=8192", "salt is not base64"),
    ],
)
def test_what_is_no_credential_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ScramCredential.parse(SHA_256, text)


def test_a_user_who_does_not_exist_looks_like_one_who_does() -> None:
    alice = ScramCredential.make(SHA_256, "secret", iterations=5000, salt=bytes(20))
    for store in (CredentialStore({"alice": (alice,)}), CredentialStore({"alice": (alice,)})):
        nobody = store.scram("nobody", SHA_256)
        assert (nobody.iterations, len(nobody.salt)) == (5000, 20)
        assert nobody.salt == CredentialStore({"alice": (alice,)}).scram("nobody", SHA_256).salt, "the same every time"
        assert nobody.salt != store.scram("somebody", SHA_256).salt
        assert (store.plain("nobody").mechanism, store.plain("nobody").iterations) == (SHA_256, 5000)
        assert "nobody" not in store


def test_a_user_without_that_mechanism_is_asked_like_any_other() -> None:
    alice = ScramCredential.make(SHA_512, "secret", iterations=4096)
    store = CredentialStore({"alice": (alice,)})
    other = store.scram("alice", SHA_256)
    assert (other.mechanism, len(other.stored_key)) == (SHA_256, 32)
    assert store.plain("alice") is alice


def test_only_a_password_that_was_verified_is_remembered_and_only_for_its_user() -> None:
    alice = ScramCredential.make(SHA_256, "secret", iterations=4096)
    store = CredentialStore({"alice": (alice,), "bob": (alice,)})
    for user, password in (("alice", b"wrong"), ("nobody", b"secret")):
        assert not store.verify(user, password)
        assert not store.remembers(user, password)
    assert not store.remembers("alice", b"secret")
    assert store.verify("alice", b"secret")
    assert store.remembers("alice", b"secret")
    assert store.verify("alice", b"secret")
    for user, password in (("alice", b"wrong"), ("bob", b"secret"), ("nobody", b"secret"), ("alice", b"")):
        assert not store.remembers(user, password)
    assert not CredentialStore({"alice": (alice,)}).remembers("alice", b"secret"), "a new store has seen none"


def test_a_store_holds_the_credentials_of_its_users_and_no_others() -> None:
    alice, other = (ScramCredential.make(SHA_256, "secret", iterations=4096) for _ in range(2))
    store = CredentialStore({"alice": (alice,)})
    assert store.holds("alice", ScramCredential.parse(SHA_256, str(alice)))
    assert not store.holds("alice", other)
    assert not store.holds("bob", alice)

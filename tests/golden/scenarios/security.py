"""A listener on which clients say who they are."""

import struct

from golden.scenarios.scenario import EVERY_SECOND, SMALL, scenario
from golden.session import Session
from support.clients.raw_client import framed
from support.clients.raw_sasl import authenticate, handshake, plain

SASL = """
listeners = "SASL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"
"advertised.listeners" = "SASL://fleetgauge.test:9093,PLAINTEXT://fleetgauge.test:9092"
"listener.security.protocol.map" = "SASL:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT"
"sasl.enabled.mechanisms" = "PLAIN"
"connections.max.reauth.ms" = 5000
"""
ALICE = """
[sasl.users.alice]
scram-sha-256 = "salt=Z29sZGVuLXNhbHQ=,stored_key=KKFBiSzF0D8Vo0z03vfiZc5ZdYJQXJgwKf/PrB7aKFU=,\
server_key=z1/V+RWVPoTMaHnx/nAqinGAKp9nAx1Eo4iLklgmnlk=,iterations=4096"
"""


def log_in(session: Session, name: str, password: str = "secret", user: str = "alice") -> None:
    session.send(name, handshake(correlation_id=800), "SaslHandshake")
    session.send(name, authenticate(plain(user, password), 801), f"SaslAuthenticate as {user}")


@scenario(SASL + EVERY_SECOND + ALICE)
def sasl_plain(session: Session) -> None:
    """A client logs in, pushes under its name, renews its session in time, and is closed when it does not."""
    session.connect("a", listener="SASL")
    session.send("a", session.versions_frame())
    log_in(session, "a")
    subscription = session.get("a")
    session.push("a", subscription, SMALL)
    session.advance(4000)
    session.push("a", subscription, SMALL)
    log_in(session, "a")
    session.advance(3000)
    session.push("a", subscription, SMALL, "7 s after the first login")
    session.advance(3000)
    session.push("a", subscription, SMALL, "too late")
    session.do("clients")


@scenario(SASL + EVERY_SECOND + ALICE)
def sasl_that_fails(session: Session) -> None:
    """Wrong passwords, unknown users and mechanisms, requests before a login, and a login on a plaintext listener."""
    session.connect("a", "b", "c", "d", "e", listener="SASL")
    log_in(session, "a", "wrong")
    log_in(session, "b", user="bob")
    session.send("c", handshake("SCRAM-SHA-999", 800))
    session.send("d", session.get_frame(), "a Get before a login")
    session.send("e", framed(struct.pack(">hhih", 36, 1, 5, -1) + b"\0\0\0\0"), "SaslAuthenticate without a handshake")
    session.advance(1000)
    session.connect("f", listener="PLAINTEXT")
    session.send("f", handshake(correlation_id=800))
    session.connect("g", listener="SASL")
    log_in(session, "g")
    session.push("g", session.get("g"), SMALL)
    log_in(session, "g", "wrong")
    session.advance(40_000)


@scenario(SASL + EVERY_SECOND + ALICE + '[quotas."users/alice"]\nrequest_percentage = 1\n')
def sasl_and_quotas(session: Session) -> None:
    """A user's quota: the login is exempt; a user who is removed while connected is closed."""
    session.do("tick", ms=60)
    session.connect("a", listener="SASL")
    session.connect("b", listener="PLAINTEXT")
    log_in(session, "a")
    subscription = session.get("a")
    for _ in range(3):
        session.push("a", subscription, SMALL)
        session.advance(1000)
    session.push("b", session.get("b"), SMALL, "nobody's quota")
    session.do("metrics")
    session.do("reconfigure", config=(SASL + EVERY_SECOND + ALICE.replace("alice", "bob")).splitlines())
    session.advance(2000)

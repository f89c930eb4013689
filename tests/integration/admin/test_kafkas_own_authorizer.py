"""Kafka's own StandardAuthorizer in a JVM: the same verdicts and the same filters on random ACLs."""

import random
import shutil
import subprocess
from collections.abc import Iterable

import pytest
from support.brokers.kafka_jars import kafka_jars
from support.clients.java_clients import compiled_java, java_command
from support.quotas.random_acls import Question, random_acls, random_filter, random_question
from support.waiting import PATIENCE_S

from fleetgauge.node.authorizer.acls import Acl, AclFilter
from fleetgauge.node.authorizer.standard_authorizer import StandardAuthorizer, read_super_users

pytestmark = pytest.mark.integration

VERSION = "4.3.1"
SUPER_USERS = ("", "User:a", " User:b ;User:CN=x,OU=y", "Group:a")
ROUNDS = 150
QUESTIONS = 100
FILTERS = 10


def kafkas_answers(lines: Iterable[str]) -> list[str]:
    """What Kafka's class answers to each line; see `tests/kafka/AclOracle.java`."""
    jars = kafka_jars(VERSION)
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(
        java_command("AclOracle", compiled_java("AclOracle", jars), jars),
        input=text.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=PATIENCE_S,
        check=True,
    )
    return done.stdout.decode().splitlines()


def words(*values: object) -> str:
    return "\t".join(str(int(each)) if isinstance(each, int) else "-" if each is None else str(each) for each in values)


def acl_line(acl: Acl) -> str:
    pattern = (acl.resource_type, acl.resource_name, acl.pattern_type)
    return words("acl", *pattern, acl.principal, acl.host, acl.operation, acl.permission)


def filter_line(wanted: AclFilter) -> str:
    pattern = (wanted.resource_type, wanted.resource_name, wanted.pattern_type)
    return words("find", *pattern, wanted.principal, wanted.host, wanted.operation, wanted.permission)


def ask_line(question: Question) -> str:
    principal, host, operation, kind, name = question
    return words("ask", principal, host, operation, kind, name)


def test_random_acls_give_the_verdicts_of_kafkas_authorizer() -> None:
    if shutil.which("java") is None:
        pytest.skip("needs Java 17: make java says how to get it")
    rng = random.Random(24)
    lines, expected = [], []
    for number in range(ROUNDS):
        acls, supers, everyone = random_acls(rng), SUPER_USERS[number % len(SUPER_USERS)], rng.random() < 0.5
        ours = StandardAuthorizer(acls, super_users=read_super_users(supers), allow_everyone_if_no_acl_found=everyone)
        questions = [random_question(rng) for _ in range(QUESTIONS)]
        filters = [random_filter(rng) for _ in range(FILTERS)]
        lines += [f"new\t{supers}\t{str(everyone).lower()}", *map(acl_line, acls)]
        expected += ["ok"] * (1 + len(acls))
        lines += [*map(ask_line, questions), *map(filter_line, filters)]
        expected += ["ALLOWED" if ours.allows(*each) else "DENIED" for each in questions]
        expected += [str(len(each.select(acls))) for each in filters]
    answers = kafkas_answers(lines)
    assert len(answers) == len(lines)
    different = [each for each in zip(lines, expected, answers, strict=True) if each[1] != each[2]]
    assert not different, different[:10]
    assert min(answers.count(word) for word in ("ALLOWED", "DENIED")) > ROUNDS * QUESTIONS / 20

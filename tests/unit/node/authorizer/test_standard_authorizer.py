"""Verdicts on random ACLs against a model that reads every ACL; Kafka's checks of new ones."""

import random
from dataclasses import replace

import pytest
from support.quotas.random_acls import PRINCIPALS, Question, random_acls, random_question

from fleetgauge.base.errors import InvalidRequestError
from fleetgauge.node.authorizer.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from fleetgauge.node.authorizer.standard_authorizer import StandardAuthorizer, read_super_users

OPS = Acl(
    resource_type=ResourceType.CLUSTER,
    resource_name=CLUSTER_NAME,
    pattern_type=PatternType.LITERAL,
    principal="User:ops",
    host="*",
    operation=AclOperation.ALTER,
    permission=Permission.ALLOW,
)


def verdict(acls: list[Acl], question: Question, everyone: bool) -> bool:
    """The rules as Kafka's documentation has them, one after the other, over all ACLs."""
    principal, host, operation, kind, name = question
    about = []
    for acl in acls:
        literal = acl.resource_name == name or (acl.resource_name == "*" and name[:1] != "*")
        prefixed = name[: len(acl.resource_name)] == acl.resource_name
        if acl.resource_type == kind and (prefixed if acl.pattern_type == PatternType.PREFIXED else literal):
            about.append(acl)
    if not about:
        return everyone
    mine = [a for a in about if a.principal in (principal, "User:*") and (a.host == "*" or a.host == host)]
    if any(a.operation.name in ("ALL", operation.name) for a in mine if a.permission == Permission.DENY):
        return False
    allowed = {a.operation.name for a in mine if a.permission == Permission.ALLOW}
    if allowed & {"READ", "WRITE", "DELETE", "ALTER"}:
        allowed.add("DESCRIBE")
    if "ALTER_CONFIGS" in allowed:
        allowed.add("DESCRIBE_CONFIGS")
    return bool(allowed & {"ALL", operation.name})


def test_random_acls_give_the_verdicts_of_the_model() -> None:
    rng = random.Random(2024)
    verdicts = []
    for _ in range(400):
        acls, everyone = random_acls(rng), rng.random() < 0.5
        authorizer = StandardAuthorizer(acls, super_users=(), allow_everyone_if_no_acl_found=everyone)
        for _ in range(50):
            question = random_question(rng)
            verdicts.append(verdict(acls, question, everyone))
            assert authorizer.allows(*question) == verdicts[-1], (question, everyone, acls)
    assert 2_000 < sum(verdicts) < 18_000


def test_a_super_user_may_do_what_an_acl_denies() -> None:
    denied = [replace(OPS, principal="User:*", operation=AclOperation.ALL, permission=Permission.DENY)]
    authorizer = StandardAuthorizer(
        denied, super_users=read_super_users("User:root;User:CN=a,O=b"), allow_everyone_if_no_acl_found=False
    )
    asked = ("10.0.0.1", AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    assert [authorizer.allows(each, *asked) for each in ("User:root", "User:CN=a,O=b", "User:other")] == [1, 1, 0]


@pytest.mark.parametrize("text", ["alice", ":alice", "User:a;bob"])
def test_super_users_need_a_type(text: str) -> None:
    with pytest.raises(ValueError, match="type:name"):
        read_super_users(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resource_name": "other"}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_type": ResourceType.TOPIC, "resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": ResourceType(77)}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": ResourceType.ANY}, "Invalid resourceType ANY"),
        ({"pattern_type": PatternType.MATCH}, "Invalid patternType MATCH"),
        ({"operation": AclOperation.ANY}, "Invalid operation ANY"),
        ({"permission": Permission(9)}, "Invalid permissionType UNKNOWN"),
        ({"principal": "ops"}, "Could not parse principal from `ops`"),
    ],
)
def test_what_no_broker_creates_is_refused_in_kafkas_words(change: dict[str, object], message: str) -> None:
    OPS.check()
    with pytest.raises(InvalidRequestError, match=message):
        replace(OPS, **change).check()  # type: ignore[arg-type]


def test_a_filter_selects_by_each_of_its_fields() -> None:
    wild = replace(OPS, resource_type=ResourceType.TOPIC, resource_name="*")
    prefixed = replace(wild, resource_name="ab", pattern_type=PatternType.PREFIXED, host="10.0.0.1")
    literal = replace(wild, resource_name="abc", principal=PRINCIPALS[0], permission=Permission.DENY)
    every = [OPS, wild, prefixed, literal]
    topic = AclFilter(resource_type=ResourceType.TOPIC, resource_name="abc")
    assert AclFilter().select(every) == sorted(every)
    assert topic.select(every) == [literal]
    assert topic.select([prefixed]) == []
    assert replace(topic, pattern_type=PatternType.MATCH).select(every) == sorted([wild, prefixed, literal])
    assert AclFilter(host="10.0.0.1").select(every) == [prefixed]
    assert AclFilter(principal="User:ops", operation=AclOperation.ALTER).select([literal, OPS]) == [OPS]
    assert AclFilter(permission=Permission.DENY).select(every) == [literal]
    for change in ({"pattern_type": PatternType(50)}, {"resource_type": ResourceType(50)}):
        with pytest.raises(InvalidRequestError, match="Unknown patternFilter"):
            AclFilter(**change).check()
    with pytest.raises(InvalidRequestError, match="Unknown entryFilter"):
        AclFilter(operation=AclOperation(99)).check()


@pytest.mark.parametrize("written", ["2001:db8:0:0:0:0:0:7", "2001:db8::7", "2001:DB8::0007"])
def test_an_ipv6_host_may_be_written_in_javas_form(written: str) -> None:
    denied = replace(OPS, host=written, permission=Permission.DENY)
    authorizer = StandardAuthorizer([OPS, denied], super_users=(), allow_everyone_if_no_acl_found=False)
    verdicts = [
        authorizer.allows("User:ops", host, AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
        for host in ("2001:db8::7", "2001:db8::8", "10.0.0.7")
    ]
    assert verdicts == [False, True, True]

"""Random ACLs, requests and filters over few names, so that many of them meet."""

import random

from fleetgauge.node.authorizer.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)

CLIENTS = ("User:a", "User:b", "User:CN=x,OU=y", "Group:a")
"""Without User:*, at which Kafka 4.3.1 fails: IllegalArgumentException, duplicate element."""
PRINCIPALS = (*CLIENTS, "User:*")
HOSTS = ("10.0.0.1", "10.0.0.2", "127.0.0.1")
TYPES = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER)
NAMES = ("a", "ab", "abc", "abd", "b", "A", "+", "*", "*a", "aé")
OPERATIONS = tuple(AclOperation)[3:]

Question = tuple[str, str, AclOperation, ResourceType, str]


def random_name(rng: random.Random, kind: ResourceType) -> str:
    return CLUSTER_NAME if kind is ResourceType.CLUSTER else rng.choice(NAMES)


def random_acl(rng: random.Random) -> Acl:
    kind = rng.choice(TYPES)
    return Acl(
        resource_type=kind,
        resource_name=random_name(rng, kind),
        pattern_type=rng.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        principal=rng.choice(PRINCIPALS),
        host=rng.choice((*HOSTS[:2], "*", "*")),
        operation=rng.choice((*OPERATIONS, AclOperation.ALL)),
        permission=rng.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
    )


def random_acls(rng: random.Random) -> list[Acl]:
    """Without equal ones: Kafka keeps each once."""
    return sorted({random_acl(rng) for _ in range(rng.choice((0, 1, 3, 10, 40)))})


def random_question(rng: random.Random) -> Question:
    kind = rng.choice(TYPES)
    return rng.choice(CLIENTS), rng.choice(HOSTS), rng.choice(OPERATIONS), kind, random_name(rng, kind)


def random_filter(rng: random.Random) -> AclFilter:
    kind = rng.choice((*TYPES, ResourceType.ANY))
    return AclFilter(
        resource_type=kind,
        resource_name=rng.choice((None, random_name(rng, kind))),
        pattern_type=rng.choice(tuple(PatternType)[1:]),
        principal=rng.choice((None, *PRINCIPALS)),
        host=rng.choice((None, None, "*", *HOSTS)),
        operation=rng.choice((AclOperation.ANY, AclOperation.ANY, AclOperation.ALL, *OPERATIONS)),
        permission=rng.choice(tuple(Permission)[1:]),
    )

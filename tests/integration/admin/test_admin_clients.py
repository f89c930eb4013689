"""kafka-python's and confluent-kafka's admin clients: one session of each at a broker and at a node.

Their ACLs are compared in `test_acl_tools.py`. Neither has calls for quotas, and librdkafka has none for client
metrics.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import admin as confluent_admin
from kafka import admin as kafka_python
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import KafkaError
from support.brokers.admin_tools import agreed
from support.brokers.kafka_broker import MISSING, KafkaBroker
from support.programs.node import Node
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

RDKAFKA: Any = confluent_admin  # its types leave a part of it out
STRANGE = "</script>\n\x1b[31m\u202e" + "x" * 200


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    if MISSING:
        pytest.skip(MISSING)
    with Node(tmp_path_factory.mktemp("node")) as started:
        yield started


def kafka_python_session(port: int) -> list[str]:
    """What each call returns or raises."""
    client = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}")

    def of(name: str, **configs: str) -> list[ConfigResource]:
        values = {key.replace("_", "."): value for key, value in configs.items()}
        return [ConfigResource(ConfigResourceType.CLIENT_METRICS, name, values or None)]

    def broker(**configs: str) -> list[ConfigResource]:
        values = {key.replace("_", "."): value for key, value in configs.items()}
        return [ConfigResource(ConfigResourceType.BROKER, "1", values)]

    set_user, delete_user = kafka_python.UserScramCredentialUpsertion, kafka_python.UserScramCredentialDeletion
    sha256, sha512 = kafka_python.ScramMechanism.SCRAM_SHA_256, kafka_python.ScramMechanism.SCRAM_SHA_512
    users: Sequence[Any] = (
        [set_user("ann", sha256, "words", iterations=4096), set_user(STRANGE, sha512, "words", iterations=8192)],
        [set_user("ann", sha512, "words", iterations=100)],
        [set_user("ann", sha256, "words"), delete_user("ann", sha256)],
        [delete_user("nosuch", sha256)],
    )
    last = [delete_user("ann", sha256), delete_user(STRANGE, sha512)]
    calls: Sequence[Callable[[], Any]] = (
        *(
            lambda name=name: client.reset_configs(of(name, metrics="", interval_ms="", match=""))
            for name in ("default",)
        ),
        lambda: client.alter_configs(of("P", metrics="org.apache.kafka.consumer.", interval_ms="5000")),
        lambda: client.alter_configs(of("P", interval_ms="7"), validate_only=True),
        lambda: client.alter_configs(of("P", match="client_id=*")),
        lambda: client.alter_configs(of("P", bogus="1"), raise_on_unknown=False),
        lambda: client.alter_configs(of(STRANGE, metrics="*")),
        lambda: client.describe_configs(of("P"), include_synonyms=True, config_filter="all"),
        lambda: client.describe_configs(of("nosuch"), config_filter="all"),
        lambda: client.list_config_resources([ConfigResourceType.CLIENT_METRICS]),
        lambda: client.reset_configs(of("P", metrics="", interval_ms="")),
        lambda: client.reset_configs(of(STRANGE, metrics="")),
        lambda: client.list_config_resources(["CLIENT_METRICS"]),
        lambda: client.alter_configs(broker(log_dirs="/elsewhere"), raise_on_unknown=False),
        *(partial(client.alter_user_scram_credentials, asked) for asked in users),
        client.describe_user_scram_credentials,
        lambda: client.describe_user_scram_credentials(["ann", "nosuch"]),
        lambda: client.alter_user_scram_credentials(last),
        client.describe_user_scram_credentials,
    )
    try:
        return [answer_of(call) for call in calls]
    finally:
        client.close()


def librdkafka_session(port: int) -> list[str]:
    """The same of confluent-kafka, of what it has."""
    client = RDKAFKA.AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
    sha256, sha512 = RDKAFKA.ScramMechanism.SCRAM_SHA_256, RDKAFKA.ScramMechanism.SCRAM_SHA_512
    deletion = RDKAFKA.UserScramCredentialDeletion

    def upsertion(user: str, mechanism: Any, iterations: int) -> Any:
        info = RDKAFKA.ScramCredentialInfo(mechanism, iterations)
        return RDKAFKA.UserScramCredentialUpsertion(user, info, b"words", b"salt")

    def altered(*asked: Any) -> list[str]:
        results = client.alter_user_scram_credentials(list(asked)).items()
        return sorted(f"{user}: {answer_of(partial(answer.result, PATIENCE_S))}" for user, answer in results)

    def described(*users: str) -> list[str]:
        found = client.describe_user_scram_credentials(list(users)).items()
        return [f"{user}: {answer_of(partial(shown, answer))}" for user, answer in found]

    def shown(answer: Any) -> str:
        found = answer.result(PATIENCE_S)
        return f"{found.user} {sorted((info.mechanism.name, info.iterations) for info in found.scram_credential_infos)}"

    def change_of_the_broker() -> Any:
        entry = RDKAFKA.ConfigEntry("log.dirs", "/x", incremental_operation=RDKAFKA.AlterConfigOpType.SET)
        resource = RDKAFKA.ConfigResource(RDKAFKA.ResourceType.BROKER, "1", incremental_configs=[entry])
        return client.incremental_alter_configs([resource])[resource].result(PATIENCE_S)

    return [
        *altered(upsertion("rd", sha256, 4096), upsertion(STRANGE, sha512, 8192)),
        *altered(upsertion("rd", sha512, 1)),
        *described("rd", STRANGE, "nosuch"),
        *altered(deletion("rd", sha256), deletion("nosuch", sha256)),
        *altered(deletion(STRANGE, sha512)),
        *described("rd"),
        answer_of(change_of_the_broker),
    ]


def answer_of(call: Callable[[], Any]) -> str:
    """What a call returns, names in their order, which Kafka leaves to a hash; or the error that it raises."""
    try:
        return str(in_order(call()))
    except KafkaException as error:
        return f"{error.args[0].name()}: {error.args[0].str()}"
    except (KafkaError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def in_order(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: in_order(found[key]) for key in sorted(found, key=str)}
    return sorted(found) if isinstance(found, list) and all(isinstance(each, str) for each in found) else found


@pytest.mark.parametrize("session", [kafka_python_session, librdkafka_session])
def test_admin_clients_get_the_answers_of_a_broker(
    broker: KafkaBroker, node: Node, session: Callable[[int], list[str]]
) -> None:
    here = session(node.port)
    there = agreed(partial(session, broker.port), here, may_ask_again=lambda _: True)
    for number, (of_broker, of_node) in enumerate(zip(there, here, strict=True)):
        assert of_node == of_broker, number
    assert any("SCRAM" in each or "iterations" in each for each in there)

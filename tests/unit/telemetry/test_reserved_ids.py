"""An id that KIP-714 reserves is no client's."""

import uuid

import pytest
from unit.telemetry.node import Client, Node


@pytest.mark.parametrize("reserved", [uuid.UUID(int=0), uuid.UUID(int=1)])
def test_a_get_with_a_reserved_id_is_answered_with_a_new_one_that_may_push(
    make_node: type[Node], make_client: type[Client], reserved: uuid.UUID
) -> None:
    client = make_client(make_node())
    client.id = reserved
    assert client.get().client_instance_id.version == 4
    assert client.answer() == 0

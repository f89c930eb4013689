"""Defaults by the size of the machine, and that what an operator writes is never changed."""

import pytest

from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.config.sizes import Machine, sized

MIB, GIB = 1 << 20, 1 << 30
FEW, MANY = Machine(400 * MIB, 1 << 20), Machine(64 * GIB, 20_000)


def config(**keys: object) -> ServiceConfig:
    return ServiceConfig.model_validate({key.replace("_", "."): value for key, value in keys.items()})


def values(keys: ServiceConfig) -> tuple[int, int, int, int]:
    return (
        keys.queued_max_request_bytes // MIB,
        keys.queued_max_response_bytes // MIB,
        keys.max_connections,
        keys.max_connections_per_ip,
    )


@pytest.mark.parametrize(
    ("memory_bytes", "expected"),
    [
        (128 * MIB, (16, 8, 1_024, 512)),
        (400 * MIB, (25, 12, 3_200, 1_600)),
        (1 * GIB, (64, 32, 8_192, 4_096)),
        (4 * GIB, (256, 128, 32_768, 16_384)),
        (64 * GIB, (512, 128, 524_288, 262_144)),
    ],
)
def test_the_table_of_the_documentation_holds(memory_bytes: int, expected: tuple[int, int, int, int]) -> None:
    assert values(sized(config(), Machine(memory_bytes, 1 << 20))) == expected


def test_open_files_bound_the_connections_of_each_worker() -> None:
    assert sized(config(), MANY).max_connections == 20_000 - 256
    of_two = sized(config(workers=2), MANY)
    assert of_two.max_connections == 2 * (20_000 - 256)
    assert of_two.max_connections_per_ip == (20_000 - 256) // 2, "half of what one worker lets in"


def test_a_client_of_a_gateway_takes_two_descriptors() -> None:
    assert sized(config(gateway_broker="broker:9092"), MANY).max_connections == (20_000 - 256) // 2


def test_a_connection_with_tls_takes_more_memory() -> None:
    with_tls = sized(config(listeners="PLAINTEXT://127.0.0.1:1,SSL://127.0.0.1:2"), FEW)
    assert with_tls.max_connections == sized(config(), FEW).max_connections // 8


def test_what_is_configured_is_not_changed() -> None:
    keys = {
        "queued_max_request_bytes": 1_024,
        "queued_max_response_bytes": MIB,
        "max_connections": 7,
        "max_connections_per_ip": 2**31 - 1,
    }
    found = sized(config(**keys), FEW)
    assert {name: getattr(found, name) for name in keys} == keys


def test_a_request_of_the_largest_size_finds_room() -> None:
    assert sized(config(socket_request_max_bytes=100 * MIB), FEW).queued_max_request_bytes == 100 * MIB


@pytest.mark.parametrize("connections", [8, 16, 64, 256, 400, 5_000, 2**31 - 1])
@pytest.mark.parametrize("workers", [1, 2])
def test_one_address_cannot_take_all_connections_by_default(connections: int, workers: int) -> None:
    found = sized(config(max_connections=connections, workers=workers), MANY)
    assert found.max_connections_per_ip < -(-found.max_connections // workers) or connections < 16

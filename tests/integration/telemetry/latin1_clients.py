"""A librdkafka producer and consumer whose configuration has Latin-1 bytes, which are no UTF-8.

A program of its own. confluent-kafka takes text alone, so the functions of the librdkafka in its package are called by
ctypes, as a program in C calls them. Arguments: bootstrap servers, prefix of the client ids. Runs until its standard
input ends or a line comes, closes both, prints "closed". librdkafka's log goes to standard error.
"""

import ctypes
import importlib.util
import select
import sys
from pathlib import Path
from typing import Any, Final

PRODUCER, CONSUMER = 0, 1
NAME: Final = "Köln".encode("latin-1")
_ERROR_BYTES = 512


def main() -> None:
    bootstrap, prefix = (argument.encode() for argument in sys.argv[1:3])
    library = _librdkafka()
    common = {
        b"bootstrap.servers": bootstrap,
        b"debug": b"telemetry",
        b"log_level": b"7",
        b"client.rack": NAME + b"-rack",
        b"reconnect.backoff.max.ms": b"200",
    }
    producer = _make(
        library,
        PRODUCER,
        {**common, b"client.id": prefix + b"-producer-" + NAME, b"transactional.id": NAME + b"-transactions"},
    )
    consumer = _make(
        library, CONSUMER, {**common, b"client.id": prefix + b"-consumer-" + NAME, b"group.id": NAME + b"-group"}
    )
    while not select.select([sys.stdin], [], [], 0)[0]:
        library.rd_kafka_poll(producer, 50)
        library.rd_kafka_poll(consumer, 50)
    library.rd_kafka_destroy(producer)
    library.rd_kafka_destroy(consumer)
    print("closed", flush=True)


def _librdkafka() -> Any:
    package = importlib.util.find_spec("confluent_kafka")
    assert package is not None
    assert package.origin is not None
    [path] = (Path(package.origin).parents[1] / "confluent_kafka.libs").glob("librdkafka-*.so*")
    library = ctypes.CDLL(str(path))
    library.rd_kafka_conf_new.restype = library.rd_kafka_new.restype = ctypes.c_void_p
    library.rd_kafka_conf_set.argtypes = [
        ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t,
    ]  # fmt: skip
    library.rd_kafka_new.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    library.rd_kafka_poll.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.rd_kafka_destroy.argtypes = [ctypes.c_void_p]
    return library


def _make(library: Any, kind: int, configuration: dict[bytes, bytes]) -> Any:
    error = ctypes.create_string_buffer(_ERROR_BYTES)
    conf = library.rd_kafka_conf_new()
    for key, value in configuration.items():
        assert library.rd_kafka_conf_set(conf, key, value, error, _ERROR_BYTES) == 0, error.value
    handle = library.rd_kafka_new(kind, conf, error, _ERROR_BYTES)
    assert handle, error.value
    return handle


if __name__ == "__main__":
    main()

"""Finds the processes that use a data directory, and reads their status."""

from contextlib import suppress
from pathlib import Path

from fleetgauge.node.data_dir import MAX_EXPORTS, DataDirectory
from fleetgauge.node.status.node_socket import NotRunningError, Status, read_status


def read_node_and_exports(directory: DataDirectory) -> Status:
    """The status of the node, and under `exports` that of every `fleetgauge export` of this directory.

    Raises:
        NotRunningError: no process answers.
    """
    exports = running_exports(directory)
    if not exports:
        return read_status(directory.node_socket)
    node: Status = {}
    with suppress(NotRunningError):
        node = read_status(directory.node_socket)
    return {**node, "exports": list(exports.values())}


def running_exports(directory: DataDirectory) -> dict[Path, Status]:
    """Socket -> status of every `fleetgauge export` of this directory."""
    exports: dict[Path, Status] = {}
    for number in range(MAX_EXPORTS):
        socket = directory.export_socket(number)
        with suppress(NotRunningError):
            if socket.exists():
                exports[socket] = read_status(socket)
    return exports

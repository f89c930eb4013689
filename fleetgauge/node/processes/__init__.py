"""The node process and its child processes with their supervisors: exporters, workers, the HTTP port."""

from fleetgauge.node.processes.lean_imports import import_structlog

import_structlog()  # every child process begins here

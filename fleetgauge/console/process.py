"""The HTTP process with the console: `python -m fleetgauge.console.process`.

`node.processes.http_supervisor` starts it.

The fleet is loaded in a thread, with its libraries: /healthz answers meanwhile.
"""

import functools
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.cluster.settings import ClusterSettings
from fleetgauge.console.api.node import Node
from fleetgauge.console.api.routes import Api, Fleetless
from fleetgauge.console.api.sessions import Sessions
from fleetgauge.console.api.web import SETTINGS, make_app
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.processes.http_process import Job, Site, main
from fleetgauge.node.status.routes import ENDPOINTS, Routes

if TYPE_CHECKING:
    from fleetgauge.cluster.subscriptions.clients import Client
    from fleetgauge.console.api.subscriptions import PageSubscriptions

log = structlog.get_logger(__name__)


def console_site(job: Job) -> Site:
    """The node's endpoints and the console."""
    routes = Routes(job["node"]).routes()
    return site(job["console"], job["node"], routes, {"endpoints": ENDPOINTS})


def site(console: dict[str, Any], socket: Path | None, endpoints: list[Any], index: dict[str, Any]) -> Site:
    """The site of a console.

    Args:
        console: its job, see `node.config.console.console_job`.
        socket: the control socket of the process beside it; None where it runs alone.
        endpoints: further paths.
        index: the answer at `/` for all but browsers.
    """
    state = Fleetless()
    cluster: ClusterSettings | None = console["cluster"]
    node = Node(socket, DataDirectory(console["log_dirs"]), cluster)
    subscriptions = functools.cache(lambda: _subscriptions(cluster, node, state))
    app = make_app(Api(state, node, Sessions(console["token"]), subscriptions), endpoints, index)
    stopped = threading.Event()
    threading.Thread(target=node.keep_looking, args=(stopped,), name="console-looks", daemon=True).start()
    threading.Thread(target=_load, args=(state, console, node, socket), name="console-load", daemon=True).start()

    def close() -> None:
        stopped.set()
        if state.fleet is not None:
            state.fleet.stop()

    return Site(app=app, settings=SETTINGS, close=close)


def _load(state: Fleetless, console: dict[str, Any], node: Node, socket: Path | None) -> None:
    try:
        from fleetgauge.console.state.fleet import Fleet, FleetSettings

        settings = FleetSettings(
            form=console["form"],
            clients_max=console["clients_max"],
            tables=console["tables"],
            rules=console["rules"],
            decode_cores=console["decode_cores"],
            # Of each process that shares the directory its own; the console alone writes nothing there.
            kept_memory=None if socket is None else DataDirectory(console["log_dirs"]).console_memory(socket),
        )
        of_node = socket if console["form"] == "serve" else None
        fleet = Fleet(_source(console), settings, node_socket=of_node, in_force=lambda: node.in_force)
        fleet.start()
    except ModuleNotFoundError as error:
        state.problem = f"the console needs {error.name}: pip install 'fleetgauge[console]'"
        log.warning("console.not_loaded", message=state.problem)
    except FleetgaugeError as error:
        state.problem = f"the console does not work: {error}"
        log.warning("console.not_loaded", message=state.problem)
    except Exception:
        state.problem = "the console could not start; the log of Fleetgauge has the reason"
        log.exception("console.not_loaded")
    else:
        state.fleet = fleet


def _subscriptions(cluster: ClusterSettings | None, node: Node, state: Fleetless) -> "PageSubscriptions":
    from fleetgauge.console.api.subscriptions import PageSubscriptions

    return PageSubscriptions(cluster, node, lambda: _clients(node, state))


def _clients(node: Node, state: Fleetless) -> "list[Client]":
    """Live clients: those that the process beside knows, or those of the fleet."""
    clients = node.clients()
    if clients is not None:
        return clients
    from fleetgauge.cluster.subscriptions.clients import clients_of
    from fleetgauge.console.state.query import MAX_LIMIT, ClientQuery

    rows: list[dict[str, Any]] = []
    while len(page := state.get().clients(ClientQuery(limit=MAX_LIMIT, offset=len(rows)))["clients"]) == MAX_LIMIT:
        rows += page
    return clients_of([*rows, *page])


def _source(console: dict[str, Any]) -> Any:
    if console["topic"] is None:
        from fleetgauge.console.state.source import EmbeddedSource

        return EmbeddedSource(DataDirectory(console["log_dirs"]))
    from fleetgauge.console.state.topic_source import TopicSource

    return TopicSource(console["topic"])


if __name__ == "__main__":
    main(console_site)

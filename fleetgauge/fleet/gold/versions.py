"""Gold: versions, which client software the fleet runs."""

from functools import cache

from fleetgauge.fleet.gold.sql import Query, listed
from fleetgauge.fleet.schemas import VERSIONS

_VERSION = "cluster_id, client_software_name, client_software_version, dialect"
_STATES = ("live", "silent", "gone", "ended")


@cache
def versions() -> Query:
    """CLIENTS -> VERSIONS: one row per cluster and version of its clients' software, with instances by state.

    >>> columns = "client_instance_id client_id client_software_name client_software_version state"
    >>> clients = rows(CLIENTS, columns, ("one", "billing", "apache-kafka-java", "4.4.0", "live"),
    ...     ("two", "billing", "apache-kafka-java", "4.4.0", "gone"), ("three", "audit", "kgo", "v1.22.2", "silent"))
    >>> found = answer(versions(), clients)
    >>> show(found, "client_software_name client_software_version instances clients live silent gone")
    client_software_name  client_software_version  instances  clients  live  silent  gone
    apache-kafka-java     4.4.0                    2          1        1     0       1
    kgo                   v1.22.2                  1          1        0     1       0
    """
    states = listed(f"count_if(state = '{state}') AS {state}" for state in _STATES)
    return Query(
        schema=VERSIONS,
        of="clients",
        columns=(*_VERSION.split(", "), "client_id", "state", "first_seen", "last_seen"),
        sql=f"""
        SELECT {_VERSION}, count(*) AS instances, count(DISTINCT client_id) AS clients, {states},
          min(first_seen) AS first_seen, max(last_seen) AS last_seen
        FROM clients
        GROUP BY {_VERSION}
        """,
    )

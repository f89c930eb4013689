"""Makes the dashboards of client metrics in the Helm chart: python tools/make_dashboards.py

They read what the rules beside them record (fleetgauge-clients.rules.yml), and for the clients of one application,
group or broker the series of the page themselves. See docs/deliver/grafana.md.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

DASHBOARDS: Final = Path(__file__).parents[1] / "deploy/helm/fleetgauge/dashboards"
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
WIDTH: Final = 24
Json = dict[str, Any]

JAVA, LIBRDKAFKA, FRANZ_GO = "Java", "librdkafka", "franz-go"
ALL: Final = (JAVA, LIBRDKAFKA, FRANZ_GO)
BOTH: Final = (JAVA, LIBRDKAFKA)

KAFKA: Final = "org_apache_kafka_"
PRODUCE, CONSUME = f"{KAFKA}producer_", f"{KAFKA}consumer_"
FETCH, COORDINATOR = f"{CONSUME}fetch_manager_", f"{CONSUME}coordinator_"
LATENCY: Final = "node_request_latency_avg"

INFO: Final = "client:fleetgauge_client_info:application"
OF_CLUSTER: Final = 'cluster_id=~"$cluster", library=~"$library"'
OF_FLEET: Final = f'{OF_CLUSTER}, principal=~"$principal"'
OF_APPLICATION: Final = f'{OF_FLEET}, application=~"$application"'
OF_GROUP: Final = f'{OF_CLUSTER}, group_id=~"$group"'
OF_BROKER: Final = f'{OF_CLUSTER}, node_id=~"$broker"'
OF_CLIENT: Final = 'client_id=~"$client", client_instance_id=~"$instance"'


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel.

    Attributes:
        queries: expression and legend of each.
        unit: Grafana's id of it.
        libraries: those whose clients send what it shows; the description ends with them.
        link: title and address of what a click on a series opens.
        columns: of a table, the labels in their order and the name of each query's value.
    """

    title: str
    description: str
    queries: tuple[tuple[str, str], ...]
    unit: str
    libraries: tuple[str, ...] = ALL
    kind: str = "timeseries"
    width: int = 12
    height: int = 8
    link: tuple[str, str] | None = None
    columns: tuple[str, ...] = ()

    def made(self, number: int, x: int, y: int) -> Json:
        """The panel as Grafana reads it."""
        found: Json = {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": f"{self.description} {self._senders()}".strip(),
            "datasource": DATASOURCE,
            "gridPos": {"h": self.height, "w": self.width, "x": x, "y": y},
            "targets": [self._target(place, *query) for place, query in enumerate(self.queries)],
            "fieldConfig": {"defaults": {"unit": self.unit}, "overrides": []},
        }
        if self.link:
            links = [{"title": self.link[0], "url": self.link[1]}]
            if self.kind == "table":
                override = {"matcher": {"id": "byName", "options": self.columns[0]}}
                found["fieldConfig"]["overrides"] = [{**override, "properties": [{"id": "links", "value": links}]}]
            else:
                found["fieldConfig"]["defaults"]["links"] = links
        if self.kind == "table":
            found["transformations"] = self._merged()
        return found

    def _senders(self) -> str:
        return "" if self.libraries == ALL else f"Sent by {' and '.join(self.libraries)}."

    def _target(self, place: int, expression: str, legend: str) -> Json:
        target = {"datasource": DATASOURCE, "refId": "ABCDEFGH"[place], "expr": expression, "legendFormat": legend}
        return target | ({"format": "table", "instant": True, "range": False} if self.kind == "table" else {})

    def _merged(self) -> list[Json]:
        """Has Grafana join a table's queries by their labels, and name and order the columns."""
        values = [f"Value #{'ABCDEFGH'[place]}" for place in range(len(self.queries))]
        if len(values) == 1:
            values = ["Value"]
        order = [*self.columns, *values]
        return [
            {"id": "merge", "options": {}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": {"Time": True},
                    "indexByName": {name: place for place, name in enumerate(order)},
                    "renameByName": {name: legend for name, (_, legend) in zip(values, self.queries, strict=True)},
                },
            },
        ]


def variable(name: str, label: str, query: str, *, everything: bool = True) -> Json:
    """A variable that Grafana fills with the values of a label."""
    chosen = {"text": ["All"], "value": ["$__all"]} if everything else {}
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": f"label_values({query})",
        "refresh": 2,
        "multi": True,
        "includeAll": everything,
        # One expression for everything, in place of every value: a fleet may have thousands.
        **({"allValue": ".*"} if everything else {}),
        "current": chosen,
        "sort": 1,
    }


COUNT: Final = "application:fleetgauge_client_info:count"
CLUSTER: Final = variable("cluster", "Cluster", f"{COUNT}, cluster_id")
LIBRARY: Final = variable("library", "Library", f'{COUNT}{{cluster_id=~"$cluster"}}, library')
PRINCIPAL: Final = variable("principal", "Principal", f"{COUNT}{{{OF_CLUSTER}}}, principal")
APPLICATION: Final = variable("application", "Application", f"{COUNT}{{{OF_FLEET}}}, application", everything=False)
CLIENT: Final = variable("client", "Client", f"{INFO}{{{OF_APPLICATION}}}, client_id", everything=False)
INSTANCE: Final = variable("instance", "Instance", f'{INFO}{{client_id=~"$client"}}, client_instance_id')
BROKER: Final = variable(
    "broker",
    "Broker",
    f'{{__name__=~"broker:{KAFKA}(producer|consumer)_{LATENCY}:count", {OF_CLUSTER}}}, node_id',
)
GROUP: Final = variable("group", "Group", f"group:fleetgauge_client_info:count{{{OF_CLUSTER}}}, group_id")


def to(uid: str, name: str, label: str) -> tuple[str, str]:
    """A link to another dashboard for what a series is about."""
    return (
        f"Open this {name}",
        f"/d/{uid}?var-{name}=${{__field.labels.{label}}}&${{datasource:queryparam}}&${{__url_time_range}}",
    )


def cell_to(uid: str, name: str) -> tuple[str, str]:
    """A link to another dashboard from a table's cell."""
    return (
        f"Open this {name}",
        f"/d/{uid}?var-{name}=${{__value.text}}&${{datasource:queryparam}}&${{__url_time_range}}",
    )


FLEET_UID, APPLICATION_UID, CLIENT_UID = "fleetgauge-fleet", "fleetgauge-application", "fleetgauge-client"
BROKER_UID, GROUPS_UID = "fleetgauge-broker", "fleetgauge-groups"
TO_APPLICATION: Final = to(APPLICATION_UID, "application", "application")
TO_CLIENT: Final = to(CLIENT_UID, "client", "client_id")
TO_BROKER: Final = to(BROKER_UID, "broker", "node_id")
TO_GROUP: Final = to(GROUPS_UID, "group", "group_id")


def recorded(level: str, metric: str, operation: str, selector: str) -> str:
    """A recorded series, by its level, Kafka's metric and the operation."""
    return f"{level}:{metric}:{operation}{{{selector}}}"


def of_clients(metric: str, selector: str, by: str) -> str:
    """The clients for which a metric of the page is largest, of those with certain labels."""
    return f"topk(10, max by ({by}) ({metric}{{{selector}}}))"


def application_panels(selector: str, by: str, legend: str, link: tuple[str, str] | None) -> Iterator[Panel]:
    """What applications do, as lines: of the fleet's most extreme, or of the chosen one by library."""

    def of(metric: str, operation: str) -> str:
        return recorded("application", metric, operation, selector)

    def top(metric: str, operation: str, fold: str = "max", scale: str = "") -> str:
        choose = "bottomk" if fold == "min" else "topk"
        return f"{choose}(10, {scale}{fold} by ({by}) ({of(metric, operation)}))"

    produce_throttle, fetch_throttle = f"{PRODUCE}produce_throttle_time_max", f"{FETCH}fetch_throttle_time_max"
    yield Panel(
        title="Produce latency",
        description="Mean time from a request of a producer to its response, over the links of its instances to brokers.",
        queries=((top(f"{PRODUCE}{LATENCY}", "avg"), legend),),
        unit="ms",
        link=link,
    )
    yield Panel(
        title="Latency of consumers' requests",
        description="Mean time from a request of a consumer to its response. A fetch waits for data, up to fetch.max.wait.ms: compare it with itself. Consumers of Java before 4.0 do not send it: see the latency of fetches.",
        queries=((top(f"{CONSUME}{LATENCY}", "avg"), legend),),
        unit="ms",
        link=link,
    )
    yield Panel(
        title="Latency of fetches",
        description="Mean time of a fetch, with its wait for data.",
        queries=((top(f"{FETCH}fetch_latency_avg", "avg"), legend),),
        unit="ms",
        libraries=BOTH,
        link=link,
    )
    yield Panel(
        title="Throttled by quotas",
        description="Longest time for which a broker held a response back because of a quota. librdkafka and franz-go send it for producers, Java for consumers, too.",
        queries=(
            (top(produce_throttle, "max"), f"{legend}, produce"),
            (top(fetch_throttle, "max"), f"{legend}, fetch"),
        ),
        unit="ms",
        link=link,
    )
    yield Panel(
        title="Lag",
        description="Records that consumers have not read yet. For the other libraries see fleetgauge offsets.",
        queries=((top(f"{FETCH}records_lag", "sum", "sum"), legend),),
        unit="short",
        libraries=(JAVA,),
        link=link,
    )
    yield Panel(
        title="Waiting in poll()",
        description="Part of the time that consumers wait for records, of the busiest instance: near 0 % the application cannot keep up. What Java sends is converted, so that both libraries reach 100 %.",
        queries=((top(f"{CONSUME}poll_idle_ratio_avg", "min", "min"), legend),),
        unit="percentunit",
        libraries=BOTH,
        link=link,
    )
    yield Panel(
        title="Time in rebalances",
        description="Part of the time that members of a group spend in rebalances, added up over instances.",
        queries=((top(f"{COORDINATOR}rebalance_latency_total", "rate5m", "sum", "0.001 * "), legend),),
        unit="percentunit",
        libraries=BOTH,
        link=link,
    )
    yield Panel(
        title="Records that failed, and retries",
        description="Records per second that a producer gave up, and that it sent again.",
        queries=(
            (top(f"{PRODUCE}record_error_total", "rate5m", "sum"), f"{legend}, failed"),
            (top(f"{PRODUCE}record_retry_total", "rate5m", "sum"), f"{legend}, retried"),
        ),
        unit="ops",
        libraries=(JAVA,),
        link=link,
    )
    yield Panel(
        title="Connections opened",
        description="Connections that instances open, per hour. A steady rate is connection churn.",
        queries=tuple(
            (top(f"{prefix}connection_creation_total", "rate5m", "sum", "3600 * "), f"{legend}, {role}")
            for prefix, role in ((PRODUCE, "producers"), (CONSUME, "consumers"))
        ),
        unit="short",
        link=link,
    )
    yield Panel(
        title="Records",
        description="Records per second, sent and consumed.",
        queries=(
            (top(f"{PRODUCE}record_send_total", "rate5m", "sum"), f"{legend}, sent"),
            (top(f"{FETCH}records_consumed_total", "rate5m", "sum"), f"{legend}, consumed"),
        ),
        unit="ops",
        libraries=(JAVA,),
        link=link,
    )
    yield Panel(
        title="Bytes",
        description="Bytes per second of producers' requests, and of the records that were consumed.",
        queries=(
            (top(f"{PRODUCE}outgoing_byte_total", "rate5m", "sum"), f"{legend}, sent"),
            (top(f"{FETCH}bytes_consumed_total", "rate5m", "sum"), f"{legend}, consumed"),
        ),
        unit="Bps",
        libraries=(JAVA,),
        link=link,
    )
    yield Panel(
        title="Time in the producer's buffer",
        description="Mean time of a record from send() to its request, with linger.ms.",
        queries=((top(f"{PRODUCE}record_queue_time_avg", "avg"), legend),),
        unit="ms",
        libraries=BOTH,
        link=link,
    )


def throttled(selector: str) -> str:
    """Instances that a quota held back; 0 where none was."""
    names = f'__name__=~"application:({PRODUCE}produce|{FETCH}fetch)_throttle_time_max:throttled"'
    return f"sum({{{names}, {selector}}}) or vector(0)"


def stats(selector: str) -> tuple[Panel, ...]:
    """The figures at the top of the fleet and of an application."""
    return (
        Panel(
            title="Client instances",
            description="Instances on the page: they have pushed within their last three intervals.",
            queries=((f"sum({COUNT}{{{selector}}})", "instances"),),
            unit="short",
            kind="stat",
            width=6,
            height=4,
        ),
        Panel(
            title="Slowest produce latency",
            description="Of the application and library with the largest mean over their links to brokers.",
            queries=((f"max({recorded('application', PRODUCE + LATENCY, 'avg', selector)})", "ms"),),
            unit="ms",
            kind="stat",
            width=6,
            height=4,
        ),
        Panel(
            title="Held back by quotas",
            description="Instances that a broker throttles.",
            queries=((throttled(selector), "instances"),),
            unit="short",
            kind="stat",
            width=6,
            height=4,
        ),
        Panel(
            title="Lag",
            description="Records that consumers have not read yet.",
            queries=((f"sum({recorded('application', FETCH + 'records_lag', 'sum', selector)})", "records"),),
            unit="short",
            libraries=(JAVA,),
            kind="stat",
            width=6,
            height=4,
        ),
    )


APPLICATIONS: Final = Panel(
    title="Applications",
    description="The hundred applications with most instances. An application is a client id without what numbers its instances.",
    queries=(
        (f"topk(100, sum by (application, principal, library) ({COUNT}{{{OF_FLEET}}}))", "Instances"),
        (
            f"max by (application, principal, library) ({recorded('application', PRODUCE + LATENCY, 'avg', OF_FLEET)})",
            "Produce latency [ms]",
        ),
        (
            f"sum by (application, principal, library) ({recorded('application', FETCH + 'records_lag', 'sum', OF_FLEET)})",
            "Lag [records]",
        ),
    ),
    unit="short",
    kind="table",
    width=WIDTH,
    height=10,
    link=cell_to(APPLICATION_UID, "application"),
    columns=("application", "principal", "library"),
)

BY_LIBRARY: Final = Panel(
    title="Instances by library",
    description="Client instances of each library.",
    queries=((f"sum by (library) ({COUNT}{{{OF_FLEET}}})", "{{library}}"),),
    unit="short",
)

VERSIONS: Final = Panel(
    title="Instances by version",
    description="Client instances by the name and version that their library says, the 20 most frequent ones; of all principals.",
    queries=(
        (
            f"topk(20, sum by (client_software_name, client_software_version) (software:fleetgauge_client_info:count{{{OF_CLUSTER}}}))",
            "{{client_software_name}} {{client_software_version}}",
        ),
    ),
    unit="short",
)

INSTANCES: Final = Panel(
    title="Instances",
    description="The client instances of this application, at most 500.",
    queries=(
        (
            f"topk(500, max by (client_id, client_instance_id, principal, library, group_id) ({INFO}{{{OF_APPLICATION}}}))",
            "On the page",
        ),
    ),
    unit="short",
    kind="table",
    width=WIDTH,
    height=10,
    link=cell_to(CLIENT_UID, "client"),
    columns=("client_id", "client_instance_id", "principal", "library", "group_id"),
)


def slowest_clients() -> Iterator[Panel]:
    """The application's clients that stand out."""
    for title, metric, unit, libraries, description in (
        ("Slowest producers", f"{PRODUCE}{LATENCY}", "ms", ALL, "Mean latency between a client and a broker."),
        ("Slowest consumers", f"{CONSUME}{LATENCY}", "ms", ALL, "The same, with the wait of fetches for data."),
    ):
        yield Panel(
            title=title,
            description=f"{description} The ten largest.",
            queries=((of_clients(metric, OF_APPLICATION, "client_id, node_id"), "{{client_id}} to {{node_id}}"),),
            unit=unit,
            libraries=libraries,
            link=TO_CLIENT,
        )
    yield Panel(
        title="Clients held back by quotas",
        description="Longest throttle time of a client, the ten largest.",
        queries=tuple(
            (of_clients(metric, OF_APPLICATION, "client_id"), f"{{{{client_id}}}}, {kind}")
            for metric, kind in (
                (f"{PRODUCE}produce_throttle_time_max", "produce"),
                (f"{FETCH}fetch_throttle_time_max", "fetch"),
            )
        ),
        unit="ms",
        link=TO_CLIENT,
    )
    yield Panel(
        title="Worst lag",
        description="Lag of a client's worst partition, the ten largest.",
        queries=(
            (
                of_clients(f"{FETCH}records_lag", OF_APPLICATION, "client_id, topic, partition"),
                "{{client_id}} {{topic}}-{{partition}}",
            ),
        ),
        unit="short",
        libraries=(JAVA,),
        link=TO_CLIENT,
    )


def client_panels() -> Iterator[Panel]:
    """What one client measures, as it is on the page."""
    labels = "client_id, client_instance_id"
    yield Panel(
        title="This client",
        description="What is known of the client: its library, address, principal and group.",
        queries=((f"fleetgauge_client_info{{{OF_CLIENT}}}", "On the page"),),
        unit="short",
        kind="table",
        width=WIDTH,
        height=5,
        columns=(
            "client_id",
            "client_instance_id",
            "client_software_name",
            "client_software_version",
            "client_source_address",
            "principal",
            "group_id",
        ),
    )

    def of(metric: str, by: str = "", scale: str = "") -> str:
        own = f"{metric}{{{OF_CLIENT}}}"
        own = f"rate({own}[$__rate_interval])" if metric.endswith("_total") else own
        return f"{scale}max by ({labels}{by}) ({own})"

    def panel(title: str, unit: str, libraries: tuple[str, ...], description: str, *queries: tuple[str, str]) -> Panel:
        return Panel(title=title, description=description, queries=queries, unit=unit, libraries=libraries)

    yield panel(
        "Latency by broker", "ms", ALL,
        "Mean time from a request to its response. Node -1 is a bootstrap connection. A 0 of librdkafka is not a measurement.",
        (of(f"{PRODUCE}{LATENCY}", ", node_id"), "{{client_id}} produces to {{node_id}}"),
        (of(f"{CONSUME}{LATENCY}", ", node_id"), "{{client_id}} consumes from {{node_id}}"),
    )  # fmt: skip
    yield panel(
        "Throttled by quotas", "ms", ALL, "Longest time for which a broker held a response back because of a quota.",
        (of(f"{PRODUCE}produce_throttle_time_max"), "{{client_id}}, produce"),
        (of(f"{FETCH}fetch_throttle_time_max"), "{{client_id}}, fetch"),
    )  # fmt: skip
    yield panel(
        "Lag", "short", (JAVA,), "Records that the client has not read yet, by partition.",
        (of(f"{FETCH}records_lag", ", topic, partition"), "{{topic}}-{{partition}}"),
    )  # fmt: skip
    yield panel(
        "Waiting in poll()", "percentunit", BOTH,
        "As the client sends it. Java counts the call before with the time between two calls: 50 % is the most that it sends.",
        (of(f"{CONSUME}poll_idle_ratio_avg"), "{{client_id}}"),
    )  # fmt: skip
    yield panel(
        "Records", "ops", (JAVA,), "Records per second: sent, failed, sent again, consumed.",
        *((of(f"{PRODUCE}record_{what}_total"), f"{{{{client_id}}}}, {what}") for what in ("send", "error", "retry")),
        (of(f'{FETCH}records_consumed_total', ", topic"), "{{client_id}}, consumed {{topic}}"),
    )  # fmt: skip
    yield panel(
        "Time in the producer's buffer", "ms", BOTH, "Mean time of a record from send() to its request, with linger.ms.",
        (of(f"{PRODUCE}record_queue_time_avg"), "{{client_id}}"),
    )  # fmt: skip
    yield panel(
        "Rebalances", "percentunit", BOTH, "Part of the time that the client spends in rebalances.",
        (of(f"{COORDINATOR}rebalance_latency_total", scale="0.001 * "), "{{client_id}}"),
    )  # fmt: skip
    yield panel(
        "Partitions", "short", BOTH, "Partitions that the client is assigned.",
        (of(f"{COORDINATOR}assigned_partitions"), "{{client_id}}"),
    )  # fmt: skip
    yield panel(
        "Connections opened", "ops", ALL, "Connections that the client opens, per second.",
        (of(f"{PRODUCE}connection_creation_total"), "{{client_id}}, producer"),
        (of(f"{CONSUME}connection_creation_total"), "{{client_id}}, consumer"),
    )  # fmt: skip
    yield panel(
        "Latency of commits and fetches", "ms", ALL, "Mean time of an offset commit, and of a fetch with its wait for data. franz-go sends commits alone.",
        (of(f"{COORDINATOR}commit_latency_avg"), "{{client_id}}, commit"),
        (of(f"{FETCH}fetch_latency_avg"), "{{client_id}}, fetch"),
    )  # fmt: skip
    yield panel(
        "Batches", "bytes", (JAVA,), "Mean size of a batch.",
        (of(f"{PRODUCE}batch_size_avg"), "{{client_id}}"),
    )  # fmt: skip
    yield panel(
        "Waiting for buffer memory", "percentunit", (JAVA,), "Part of the time that the producer waits for room in its buffer.",
        (of(f"{PRODUCE}bufferpool_wait_ratio"), "{{client_id}}"),
    )  # fmt: skip


def broker_panels() -> Iterator[Panel]:
    """What clients measure of brokers."""
    for role, prefix, note in (
        ("producers", PRODUCE, ""),
        (
            "consumers",
            CONSUME,
            " It has the wait of fetches for data in it. Consumers of Java before 4.0 do not send it.",
        ),
    ):
        metric = f"{prefix}{LATENCY}"
        yield Panel(
            title=f"Latency of {role}",
            description=f"95 % of the links between clients and the broker do not exceed it, by their mean latencies; by library, since these measure differently.{note}",
            queries=((recorded("broker", metric, "p95", OF_BROKER), "{{node_id}} {{library}}"),),
            unit="ms",
            link=TO_BROKER,
        )
    yield Panel(
        title="Links",
        description="Links of client instances to a broker with a latency; one instance has one to each broker that it talks to.",
        queries=tuple(
            (
                f"sum by (node_id) ({recorded('broker', prefix + LATENCY, 'count', OF_BROKER)})",
                f"{{{{node_id}}}} {role}",
            )
            for role, prefix in (("producers", PRODUCE), ("consumers", CONSUME))
        ),
        unit="short",
        width=WIDTH,
        link=TO_BROKER,
    )
    for role, prefix in (("producers", PRODUCE), ("consumers", CONSUME)):
        yield Panel(
            title=f"Slowest {role}",
            description="Mean latency between a client and this broker, the ten largest. Choose few brokers: it reads every link of theirs.",
            queries=(
                (
                    of_clients(f"{prefix}{LATENCY}", OF_BROKER, "client_id, node_id"),
                    "{{client_id}} to {{node_id}}",
                ),
            ),
            unit="ms",
            link=TO_CLIENT,
        )


def group_panels() -> Iterator[Panel]:
    """Consumer groups."""

    def of(metric: str, operation: str) -> str:
        return recorded("group", metric, operation, OF_GROUP)

    labels = "group_id, principal, library"
    yield Panel(
        title="Groups",
        description="The hundred groups with most members that push.",
        queries=(
            (f"topk(100, sum by ({labels}) (group:fleetgauge_client_info:count{{{OF_GROUP}}}))", "Members"),
        ),
        unit="short",
        kind="table",
        width=WIDTH,
        height=8,
        link=cell_to(GROUPS_UID, "group"),
        columns=("group_id", "principal", "library"),
    )  # fmt: skip
    for title, unit, libraries, description, expression, legend in (
        ("Lag", "short", (JAVA,), "Records that the group has not read yet, by topic.",
         f"topk(10, sum by (group_id, topic) ({of(f'{FETCH}records_lag', 'sum')}))", "{{group_id}} {{topic}}"),
        ("Worst partition", "short", (JAVA,), "Lag of the group's worst partition.",
         f"topk(10, max by (group_id) ({of(f'{FETCH}records_lag', 'max')}))", "{{group_id}}"),
        ("Records consumed", "ops", (JAVA,), "Records per second.",
         f"topk(10, sum by (group_id) ({of(f'{FETCH}records_consumed_total', 'rate5m')}))", "{{group_id}}"),
        ("Waiting in poll()", "percentunit", BOTH, "Part of the time that the busiest member waits for records: near 0 % it cannot keep up. What Java sends is converted, so that both libraries reach 100 %.",
         f"bottomk(10, min by (group_id) ({of(f'{CONSUME}poll_idle_ratio_avg', 'min')}))", "{{group_id}}"),
        ("Rebalances per hour", "short", (JAVA,), "Of the member that took part in most.",
         f"topk(10, 3600 * max by (group_id) ({of(f'{COORDINATOR}rebalance_total', 'rate5m')}))", "{{group_id}}"),
        ("Time in rebalances", "percentunit", BOTH, "Part of the time that the member with the longest rebalances spends in them.",
         f"topk(10, 0.001 * max by (group_id) ({of(f'{COORDINATOR}rebalance_latency_total', 'rate5m')}))", "{{group_id}}"),
        ("Members", "short", ALL, "Members that push.",
         f"topk(10, sum by (group_id) (group:fleetgauge_client_info:count{{{OF_GROUP}}}))", "{{group_id}}"),
        ("Members without partitions", "short", BOTH, "Members that are assigned none; 0 where every member has some.",
         f"topk(10, sum by (group_id) ({of(f'{COORDINATOR}assigned_partitions', 'idle')}) or 0 * sum by (group_id) ({of(f'{COORDINATOR}assigned_partitions', 'sum')}))", "{{group_id}}"),
        ("Partitions", "short", BOTH, "Partitions of all members.",
         f"topk(10, sum by (group_id) ({of(f'{COORDINATOR}assigned_partitions', 'sum')}))", "{{group_id}}"),
        ("Partitions of one member", "short", BOTH, "Of the member that is assigned most.",
         f"topk(10, max by (group_id) ({of(f'{COORDINATOR}assigned_partitions', 'max')}))", "{{group_id}}"),
        ("Latency of commits", "ms", ALL, "Mean time of an offset commit, of the slowest member.",
         f"topk(10, max by (group_id) ({of(f'{COORDINATOR}commit_latency_avg', 'max')}))", "{{group_id}}"),
        ("Latency of fetches", "ms", BOTH, "Mean time of a fetch with its wait for data, of the slowest member.",
         f"topk(10, max by (group_id) ({of(f'{FETCH}fetch_latency_avg', 'max')}))", "{{group_id}}"),
    ):  # fmt: skip
        yield Panel(
            title=title,
            unit=unit,
            libraries=libraries,
            description=description,
            queries=((expression, legend),),
            link=TO_GROUP,
        )
    yield Panel(
        title="Members that lag most",
        description="Lag of a member's worst partition, the ten largest. Choose few groups: it reads every partition.",
        queries=((of_clients(f"{FETCH}records_lag", OF_GROUP, "group_id, client_id, topic, partition"), "{{client_id}} {{topic}}-{{partition}}"),),
        unit="short",
        libraries=(JAVA,),
        link=TO_CLIENT,
    )  # fmt: skip


def dashboard(uid: str, title: str, variables: tuple[Json, ...], panels: tuple[Panel, ...]) -> Json:
    """A dashboard with its panels from left to right, and links to the others."""
    made: list[Json] = []
    x = y = height = 0
    for panel in panels:
        if x + panel.width > WIDTH:
            x, y, height = 0, y + height, 0
        made.append(panel.made(len(made) + 1, x, y))
        x, height = x + panel.width, max(height, panel.height)
    datasource = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
    }
    others = {
        "title": "Fleetgauge",
        "type": "dashboards",
        "tags": ["fleetgauge"],
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
        "icon": "external link",
        "targetBlank": False,
        "tooltip": "",
        "url": "",
    }
    return {
        "uid": uid,
        "title": title,
        "tags": ["fleetgauge"],
        "timezone": "",
        "editable": True,
        "schemaVersion": 38,
        "refresh": "1m",
        "time": {"from": "now-3h", "to": "now"},
        "links": [others],
        "templating": {"list": [datasource, *variables]},
        "panels": made,
    }


def dashboards() -> Iterator[tuple[str, Json]]:
    """File name and content of each."""
    fleet = (
        *stats(OF_FLEET), APPLICATIONS, BY_LIBRARY, VERSIONS,
        *application_panels(OF_FLEET, "application, library", "{{application}} {{library}}", TO_APPLICATION),
    )  # fmt: skip
    application = (
        *stats(OF_APPLICATION), *application_panels(OF_APPLICATION, "library", "{{library}}", None),
        *slowest_clients(), INSTANCES,
    )  # fmt: skip
    for uid, title, variables, panels in (
        (FLEET_UID, "Kafka clients: fleet", (CLUSTER, LIBRARY, PRINCIPAL), fleet),
        (APPLICATION_UID, "Kafka clients: application", (CLUSTER, LIBRARY, PRINCIPAL, APPLICATION), application),
        (
            CLIENT_UID,
            "Kafka clients: client",
            (CLUSTER, LIBRARY, PRINCIPAL, APPLICATION, CLIENT, INSTANCE),
            tuple(client_panels()),
        ),
        (BROKER_UID, "Kafka clients: broker", (CLUSTER, LIBRARY, BROKER), tuple(broker_panels())),
        (GROUPS_UID, "Kafka clients: groups", (CLUSTER, LIBRARY, GROUP), tuple(group_panels())),
    ):
        yield f"{uid}.json", dashboard(uid, f"Fleetgauge: {title}", variables, panels)


def main() -> None:
    """Writes the files into the chart's folder, or into the one that is named."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DASHBOARDS
    for name, content in dashboards():
        (folder / name).write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()

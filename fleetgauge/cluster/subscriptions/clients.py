"""A client instance as plans and canaries see it: from a running node or export, or from fleet tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.cluster.subscriptions.resources import Resource
from fleetgauge.telemetry.instances.client_state import ClientState
from fleetgauge.telemetry.instances.instance import MAX_MATCHED_CHARACTERS
from fleetgauge.telemetry.push_record import parse_instance_id
from fleetgauge.telemetry.subscriptions.match import ClientAttributes, ClientMatchingParam, instance_id_forms

_TEXTS: Final = (
    ClientMatchingParam.CLIENT_ID,
    ClientMatchingParam.CLIENT_SOFTWARE_NAME,
    ClientMatchingParam.CLIENT_SOFTWARE_VERSION,
    ClientMatchingParam.CLIENT_SOURCE_ADDRESS,
)
_DEPARTED: Final = (ClientState.ENDED, ClientState.VANISHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One live client instance; None where the source does not know.

    Attributes:
        instance_id: in Kafka's form, 22 characters.
        client_id, software_name, software_version, principal, address, port: who it is.
        state: of `ClientState`, or of the table `inventory`.
        interval_ms: its push interval [ms].
        metrics: prefixes that it was asked for.
        pushes, push_bytes: since it is known; payloads as received [B].
        refused: requests that were answered with an error.
        role: producer, consumer, share-consumer, admin or streams.
        points: data points of all `pushes`.
    """

    instance_id: str
    client_id: str
    software_name: str
    software_version: str
    principal: str = ""
    address: str = ""
    port: int | None = None
    state: str = ClientState.LIVE
    interval_ms: int | None = None
    metrics: tuple[str, ...] | None = None
    pushes: int = 0
    push_bytes: int | None = None
    refused: int | None = None
    role: str | None = None
    points: int | None = None

    @property
    def software(self) -> str:
        """Name and version, as verdicts write them."""
        return f"{self.software_name}/{self.software_version}"

    def identity(self) -> dict[str, str]:
        """The client by the names of the inventory."""
        return {
            "client_instance_id": self.instance_id,
            "client_id": self.client_id,
            "client_software_name": self.software_name,
            "client_software_version": self.software_version,
            "principal": self.principal,
            "client_source_address": self.address,
        }

    def attributes(self) -> ClientAttributes:
        """Attributes that selectors of a `match` are compared with."""
        return attributes_of({**self.identity(), "client_source_port": self.port})


def attributes_of(client: Mapping[str, Any]) -> ClientAttributes:
    """Attributes that selectors of a `match` are compared with, from a client with the field names of a push record;
    any may be missing.
    """
    instance_id, port = client["client_instance_id"], client.get("client_source_port")
    try:
        forms = instance_id_forms(parse_instance_id(instance_id))
    except ValueError:
        forms = (instance_id,)
    return {
        **{name: (client.get(name, "")[:MAX_MATCHED_CHARACTERS],) for name in _TEXTS},
        ClientMatchingParam.CLIENT_INSTANCE_ID: forms,
        ClientMatchingParam.CLIENT_SOURCE_PORT: () if port is None else (str(port),),
    }


def clients_of(rows: Iterable[Mapping[str, Any]]) -> list[Client]:
    """Live clients out of rows of the inventory (`fleetgauge clients --format json`); departed ones are left out."""
    return [
        client_of(
            row,
            state=row["state"],
            metrics=None if row["metrics"] is None else tuple(row["metrics"]),
            push_bytes=row["push_bytes"],
            refused=row["refused"],
        )
        for row in rows
        if row["state"] not in _DEPARTED
    ]


def client_of(row: Mapping[str, Any], **known: Any) -> Client:
    """A client by what every inventory has of it; `known` has what others lack."""
    return Client(
        instance_id=row["client_instance_id"],
        client_id=row["client_id"] or "",
        software_name=row["client_software_name"] or "",
        software_version=row["client_software_version"] or "",
        principal=row["principal"] or "",
        address=row["client_source_address"] or "",
        port=row["client_source_port"],
        interval_ms=row["push_interval_ms"],
        pushes=row["pushes"],
        **known,
    )


def matching(resource: Resource, clients: Sequence[ClientAttributes]) -> list[bool] | None:
    """For each client, whether a subscription matches its attributes; None if RE2 rejects one of the patterns."""
    try:
        subscription = resource.subscription()
    except InvalidConfigError:
        return None
    return [subscription.matches(each) for each in clients]

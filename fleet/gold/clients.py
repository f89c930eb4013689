"""Gold: what every table by client shares: who an instance was last."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

IDENTITY: Final = ("client_id", "client_software_name", "client_software_version", "dialect")


def latest_identity() -> Column:
    """An aggregate: `identity`, a struct with what the latest push of the group says of its client."""
    return F.max(F.struct("received_at", "push_id", *IDENTITY)).alias("identity")


def identity_columns() -> list[Column]:
    """The columns of that struct which name the client."""
    return [F.col(f"identity.{name}").alias(name) for name in IDENTITY]

"""Silver: which library a push or a data point comes from. A library's dialect says how its points are to be read."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from fleet.dialects import (
    FRANZ_GO,
    JAVA,
    LIBRDKAFKA,
    SCOPE_OF_LIBRDKAFKA,
    SOFTWARE_OF_FRANZ_GO,
    SOFTWARE_OF_JAVA,
    SOFTWARE_OF_LIBRDKAFKA,
)
from telemetry.catalogue.standard_metrics import ROLE_PREFIXES


def role_of_all() -> Column:
    """An aggregate: the role that all pushes of a client tell together, the last of ROLE_PREFIXES that one of them has.

    So it is the same whichever comes last: franz-go leaves points of 0 out, and sends different metrics each time.
    """
    return F.max_by("role", F.array_position(F.array(*(F.lit(role) for role in ROLE_PREFIXES)), F.col("role")))


def dialect(scope_name: Column | None = None) -> Column:
    """`fleet.dialects.library_of`, of rows with the software's name and version."""
    name, version = F.col("client_software_name"), F.col("client_software_version")
    by_name = (
        F.when(name == SOFTWARE_OF_JAVA, JAVA)
        .when(name == SOFTWARE_OF_FRANZ_GO, FRANZ_GO)
        .when(name.rlike(SOFTWARE_OF_LIBRDKAFKA) | version.contains("rdkafka"), LIBRDKAFKA)
    )
    if scope_name is None:
        return by_name
    by_scope = F.when(scope_name == SOFTWARE_OF_FRANZ_GO, FRANZ_GO).when(
        scope_name.rlike(SCOPE_OF_LIBRDKAFKA), LIBRDKAFKA
    )
    return F.coalesce(by_scope, by_name)

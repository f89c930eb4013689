"""Silver: which library a push comes from. A library's dialect says how its points are to be read."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from fleet.dialects import (
    FRANZ_GO,
    JAVA,
    LIBRDKAFKA,
    SOFTWARE_OF_FRANZ_GO,
    SOFTWARE_OF_JAVA,
    SOFTWARE_OF_LIBRDKAFKA,
)


def dialect() -> Column:
    """`fleet.dialects.library_of`, of rows with the software's name and version."""
    name, version = F.col("client_software_name"), F.col("client_software_version")
    return (
        F.when(name == SOFTWARE_OF_JAVA, JAVA)
        .when(name == SOFTWARE_OF_FRANZ_GO, FRANZ_GO)
        .when(name.rlike(SOFTWARE_OF_LIBRDKAFKA) | version.contains("rdkafka"), LIBRDKAFKA)
    )

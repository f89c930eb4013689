"""Silver: which library a push or a data point comes from. A library's dialect says how its points are to be read."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

_SCOPE_OF_LIBRDKAFKA: Final = r"#(producer|consumer)-[0-9]+$"
_LIBRDKAFKA: Final = r"rdkafka|^confluent-kafka-"


def dialect(scope_name: Column | None = None) -> Column:
    """`java`, `librdkafka`, `franz-go`, or null for another, of rows with the software's name.

    The scope of a point tells it too, also where the name is not known: franz-go before 1.20 says none, and an
    application may give librdkafka any name.
    """
    name, version = F.col("client_software_name"), F.col("client_software_version")
    by_name = (
        F.when(name == "apache-kafka-java", "java")
        .when(name == "kgo", "franz-go")
        .when(name.rlike(_LIBRDKAFKA) | version.contains("rdkafka"), "librdkafka")
    )
    if scope_name is None:
        return by_name
    by_scope = F.when(scope_name == "kgo", "franz-go").when(scope_name.rlike(_SCOPE_OF_LIBRDKAFKA), "librdkafka")
    return F.coalesce(by_scope, by_name)

"""The readers of `fleetgauge.spark` in a session of a Spark Connect server: their rows as JSON on stdout.

The arguments are the server's address, a landing zone, the root of its tables, and a directory for a stream.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from fleetgauge.spark import Selection, read_points, read_pushes, read_windows, register


def rows(frame: Any) -> list[str]:
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in frame.toArrow().to_pylist())


if __name__ == "__main__":
    address, zone, tables, streamed = sys.argv[1:]
    spark = SparkSession.builder.remote(address).getOrCreate()
    found: dict[str, tuple[Any, ...]] = {
        "pushes": (read_pushes(spark, zone), read_pushes(spark, tables=tables)),
        "points": (read_points(spark, zone), read_points(spark, tables=tables)),
        "one client": tuple(
            read_pushes(spark, source, Selection(client_ids=["consumer"]), tables=root)
            for source, root in ((zone, None), (None, tables))
        ),
    }
    register(spark)
    source = {"format": "fleetgauge", "kind": "pushes"}
    found["data source"] = (spark.read.load(zone, **source).dropDuplicates(["push_id"]), found["pushes"][0])
    writer = spark.readStream.load(zone, **source).writeStream.option("checkpointLocation", f"{streamed}/checkpoint")
    writer.trigger(availableNow=True).start(f"{streamed}/pushes", format="parquet").awaitTermination()
    found["stream"] = (spark.read.parquet(f"{streamed}/pushes"), spark.read.load(zone, **source))
    answer = {name: [rows(frame) for frame in frames] for name, frames in found.items()}
    print(json.dumps({**answer, "latency": [rows(read_windows(spark, "latency", tables=tables))]}))

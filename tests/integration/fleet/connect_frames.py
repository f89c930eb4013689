"""The readers of `fleetgauge.spark` in a session of a Spark Connect server: their rows as JSON on stdout.

The arguments are the server's address, a landing zone, and the root of its tables.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from fleetgauge.spark import Selection, read_points, read_pushes, read_windows


def rows(frame: Any) -> list[str]:
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in frame.toArrow().to_pylist())


if __name__ == "__main__":
    address, zone, tables = sys.argv[1:]
    spark = SparkSession.builder.remote(address).getOrCreate()
    found = {
        "pushes": (read_pushes(spark, zone), read_pushes(spark, tables=tables)),
        "points": (read_points(spark, zone), read_points(spark, tables=tables)),
        "one client": tuple(
            read_pushes(spark, source, Selection(client_ids=["consumer"]), tables=root)
            for source, root in ((zone, None), (None, tables))
        ),
    }
    answer = {name: [rows(frame) for frame in frames] for name, frames in found.items()}
    print(json.dumps({**answer, "latency": [rows(read_windows(spark, "latency", tables=tables))]}))

"""What fleet's tables say of a landing zone, in a session of its own, as JSON on stdout.

Arguments: the landing zone. The tables: `clients`, one row each; `marks`, how many points of sums have which marks, by
client; `unknown_metrics`, names of Java's metrics that the standard-metrics table lacks.
"""

import json
import sys
from datetime import UTC, datetime

from pyspark.sql import functions as F  # noqa: N812

from fleet.gold.inventory import inventory
from fleet.gold.metrics import metrics
from fleet.jobs import read_pushes
from fleet.report.output import json_lines
from fleet.selection import Selection
from fleet.session import SessionSettings, start_session
from fleet.silver import batch as silver
from fleet.silver.clients import clients
from fleet.silver.pushes import pushes

MARKS = ("gap", "covers_gap", "before_subscription", "reset")

if __name__ == "__main__":
    session = start_session(SessionSettings(master="local[2]", local_shuffle_partitions=2))
    checked, _ = read_pushes(session, sys.argv[1], Selection())
    packed = silver.make(checked).cache()
    pushed, points = pushes(silver.unpack(packed, "counted")).cache(), silver.unpack(packed, "marked").cache()
    of_java = points.where("dialect = 'java'").select("metric_name").distinct()
    tables = {
        "clients": clients(pushed, None, datetime.now(UTC)),
        "inventory": inventory(pushed),
        "marks": points.groupBy("client_instance_id", "dialect").agg(
            F.count("delta").alias("deltas"),
            F.count_if(~F.col("gap")).alias("without_gap"),
            *(F.count_if(mark).alias(mark) for mark in MARKS),
        ),
        "unknown_metrics": of_java.join(metrics(session), "metric_name", "left_anti"),
    }
    print(json.dumps({name: [json.loads(line) for line in json_lines(frame)] for name, frame in tables.items()}))
    session.stop()

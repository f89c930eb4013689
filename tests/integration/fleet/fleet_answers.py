"""Fleet's answers in one session of its own, as JSON on stdout: a list of what each request on stdin has answered.

A request is `{"job": ..., "source": ..., "options": [...], "since": ..., "until": ...}`; an answer is `{"rows": [...],
"rejects": ..., "repeats": ...}` or `{"error": ...}`. The session has the connector, which the tests' shared one lacks.
"""

import json
import sys
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession

from fleetgauge.fleet.engines import jobs
from fleetgauge.fleet.engines.questions import question
from fleetgauge.fleet.errors import FleetError
from fleetgauge.fleet.report.cells import json_lines
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.source.topic.connector import connector_jars
from fleetgauge.fleet.source.topic.source import parse_source
from fleetgauge.fleet.spark.session import SessionSettings, start_session


def answer(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    since, until = (
        datetime.fromisoformat(text) if (text := request.get(name)) else None for name in ("since", "until")
    )
    try:
        source = parse_source(request["source"], request.get("options", []))
        found = jobs.answer(spark, question(request["job"]), source, Selection(since=since, until=until))
        rows = [json.loads(line) for batch in found.frame.toArrow().to_batches() for line in json_lines(batch)]
    except FleetError as error:
        return {"error": str(error)}
    return {"rows": rows, "rejects": found.rejects, "repeats": found.repeats}


if __name__ == "__main__":
    session = start_session(SessionSettings(master="local[2]", local_shuffle_partitions=2, jars=connector_jars()))
    print(json.dumps([answer(session, request) for request in json.load(sys.stdin)]))
    session.stop()

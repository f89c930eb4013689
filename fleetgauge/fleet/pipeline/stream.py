"""Streaming query of Spark that reads new input of a source: `fleet run --continuous` and `fleet watch` on Spark.

A round is a run of the query until it has read what was there when the round began (Structured Streaming's trigger
`availableNow`). The query's checkpoint, below the tables, has what was read. A batch is committed under the query's id
and its own number, so that one that was cut off counts once.
"""

import json
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from pyspark.sql import DataFrame

from fleetgauge.fleet.engines.engine import Batch

CHECKPOINTS: Final = "state/_checkpoints"
"""Directory below the root of the tables, with one directory per source."""


def read_available(frame: DataFrame, checkpoint: str, write: Callable[[str, Batch], None]) -> tuple[str, Any]:
    """Reads all available input, batch by batch.

    Args:
        frame: a streaming frame of BRONZE.
        checkpoint: a directory, or a URI that Hadoop knows.
        write: is given the query's id, which stays with the checkpoint, and a batch; the same ones again after an
            error or a kill.

    Returns:
        The query's id, and the offset up to which it has read, as the source writes it; None where nothing was new.

    Raises:
        Exception: that of `write`, or of Spark.
    """
    query_id: Future[str] = Future()
    failed: list[Exception] = []

    def write_batch(records: DataFrame, number: int) -> None:
        try:
            write(query_id.result(), Batch(number=number, records=records))
        except Exception as error:
            failed.append(error)  # Spark would hand on its text alone
            raise

    writer = frame.writeStream.foreachBatch(write_batch).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    query_id.set_result(str(query.id))
    try:
        query.awaitTermination()
    except Exception:
        if failed:
            raise failed[0] from None
        raise
    finally:
        query.stop()
    progress = query.lastProgress
    end = progress["sources"][0]["endOffset"] if progress else None
    return str(query.id), json.loads(end) if isinstance(end, str) else end

"""Engines that read rates and run a task on each group of clients that share a limit: this process, or Spark's
executors.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fleetgauge.fleet import shards
from fleetgauge.fleet.arrow import RecordBatch, Table, pa, to_list
from fleetgauge.fleet.measures.rows import filled
from fleetgauge.fleet.whatif.outcome import groups
from fleetgauge.fleet.whatif.rates import RATES, Clients, ReadRates, added

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Task = Callable[[int, Table], Any]
"""Function of the number of a group and its RATES."""

_SPARK_RATES: Final = "sharers int, node_id int, cell long, bytes double, requests double, instances double, by byte"


def of_table(rates: Table, task: Task) -> dict[int, Any]:
    """Applies a task to each group of RATES in memory."""
    return {number: task(number, own) for number, own in groups(rates)}


def in_process(
    read: ReadRates, parts: Sequence[shards.Part], task: Task, done: Callable[[int], None]
) -> dict[int, Any]:
    """Applies a task to each group as soon as the rates of all its clients are read; results by group.

    Args:
        read: reads the clients of a part.
        parts: in their order, with every id.
        task: what is made.
        done: called with the number of parts that are done.
    """
    last_id = _last_ids(read.clients)
    results: dict[int, Any] = {}
    kept = RATES.empty_table()
    for number, part in enumerate(parts, 1):
        kept = added(pa.concat_tables([kept, read(part)]))
        sharers = filled(kept["sharers"], 0)
        known = np.unique(sharers)
        is_whole = np.array([part[1] is None or last_id[each] < part[1] for each in known.tolist()], np.bool_)
        ready = is_whole[np.searchsorted(known, sharers)] if len(known) else np.zeros(0, np.bool_)
        results |= of_table(kept.filter(pa.array(ready)), task)
        kept = kept.filter(pa.array(~ready)).combine_chunks()
        done(number)
    return results


def _last_ids(clients: Clients) -> Mapping[int, str]:
    last_ids: dict[int, str] = {}
    for (_, _, instance_id), client in clients.items():
        last_ids[client.sharers] = max(last_ids.get(client.sharers, ""), instance_id)
    return last_ids


def on_spark(spark: "SparkSession", read: ReadRates, parts: Sequence[shards.Part], task: Task) -> dict[int, Any]:
    """Applies a task to each group; one shuffle brings a group's rates to one executor."""

    def read_parts(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        for batch in batches:
            for number in to_list(batch.column(0)):
                yield from read(parts[number]).to_batches()

    numbers = spark.createDataFrame([(number,) for number in range(len(parts))], "part int")
    rates = numbers.repartition(len(parts), "part").mapInArrow(read_parts, _SPARK_RATES)

    def result(group: Table) -> Table:  # a function: of an object Spark would take `self` for the key
        number = int(filled(group["sharers"], 0)[0])
        columns = [pa.array([number], pa.int32()), pa.array([pickle.dumps(task(number, group))], pa.binary())]
        return pa.table(columns, names=["sharers", "result"])

    rows = rates.groupBy("sharers").applyInArrow(result, "sharers int, result binary").collect()
    return {row.sharers: pickle.loads(row.result) for row in rows}  # noqa: S301  # of our own executors

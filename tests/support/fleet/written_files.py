"""Batches of rows as files of a table, as a task that makes nothing else would write them."""

from collections.abc import Generator, Iterable
from typing import Any

from fleetgauge.fleet.tables.parquet_files import WriteFiles
from fleetgauge.fleet.tables.written_file import WrittenFile


def written(files: WriteFiles, batches: Iterable[Any]) -> Generator[WrittenFile, None, None]:
    """Each file once it is finished; what is not finished when this ends early is removed."""
    with files.open() as writer:
        for batch in batches:
            writer.write(batch)
            yield from writer.take_finished()
        writer.finish()
        yield from writer.take_finished()

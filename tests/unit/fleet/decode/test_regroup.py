"""Batches of pushes in chunks of a bounded size."""

import pyarrow as pa
import pytest

from fleetgauge.fleet.decode.stage import regroup


def batch(*sizes: int | None) -> pa.RecordBatch:
    payloads = [None if size is None else b"x" * size for size in sizes]
    return pa.RecordBatch.from_pydict({"metrics": pa.array(payloads, pa.binary())})


@pytest.mark.parametrize(
    ("batches", "chunks"),
    [
        ([], []),
        ([()], []),
        ([(4, 6), (1,)], [[4, 6], [1]]),
        ([(3, 3), (4,)], [[3, 3, 4]]),
        ([(11, 1)], [[11], [1]]),
        ([(10, 0, None, 1, 25, 0)], [[10, 0, None], [1], [25], [0]]),
        ([(0, 0), (0,)], [[0, 0, 0]]),
    ],
)
def test_chunks_hold_at_most_ten_bytes_or_one_row(
    batches: list[tuple[int | None, ...]], chunks: list[list[int | None]]
) -> None:
    found = [chunk.column("metrics").to_pylist() for chunk in regroup([batch(*sizes) for sizes in batches], 10)]
    assert [[None if each is None else len(each) for each in chunk] for chunk in found] == chunks


def test_rows_without_a_payload_do_not_pile_up() -> None:
    chunks = list(regroup([batch(None, 0), batch(0, None, 0), batch(7)], 10, 4))
    assert [len(chunk) for chunk in chunks] == [2, 4]

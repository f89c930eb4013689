"""What the judge's process does with memory that is freed."""

import platform
import subprocess
import sys

import pytest

_ROUNDS = """
import resource
import numpy as np
from fleetgauge.fleet.pipeline.of_verdicts import keep_freed_memory

def page_faults():
    begin = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [np.ones(400_000) for _ in range(12)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - begin

keep_freed_memory()
print(page_faults(), page_faults(), page_faults())
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is of glibc")
def test_memory_of_arrays_that_were_dropped_serves_the_next_ones() -> None:
    """38 MB are 9,375 pages: the kernel gives them once."""
    done = subprocess.run([sys.executable, "-c", _ROUNDS], capture_output=True, text=True, check=True)
    first, *later = map(int, done.stdout.split())
    assert first > 2_000
    assert max(later) < 1_000

"""What a process that serves does with Python's garbage collector; in a process of its own, since it is for good."""

import json
import subprocess
import sys

from support.waiting import PATIENCE_S

SERVE = """
import gc, json
from fleetgauge.node.processes.garbage import collect_seldom
loaded = [[] for _ in range(100_000)]
collect_seldom()
before = [each["collections"] for each in gc.get_stats()]
for _ in range(100):
    under_way = [[] for _ in range(2_000)]
    del under_way
after = [each["collections"] for each in gc.get_stats()]
class Node: pass
for _ in range(100_000):
    node = Node()
    node.itself = node
left = sum(isinstance(each, Node) for each in gc.get_objects())
print(json.dumps([before, after, gc.get_freeze_count(), left]))
"""


def test_pushes_under_way_start_no_collection_and_cycles_are_collected_all_the_same() -> None:
    done = subprocess.run([sys.executable, "-c", SERVE], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    before, after, frozen, left = json.loads(done.stdout)
    assert before == after
    assert frozen >= 100_000, "what is there at the start is looked at no more"
    assert 0 < left <= 20_000, "of 100,000 objects that point to themselves"

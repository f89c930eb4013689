"""Settings of Python's cyclic garbage collector in a process that serves.

A collection visits objects one by one while nothing else runs. A full one over the objects of a node that has just
started takes 20 to 100 ms, during which no client is answered.
"""

import gc
from typing import Final

_YOUNG: Final = 10_000
"""A collection starts when allocations exceed deallocations by this number. At Python's default of 700, a few dozen
pushes in progress start one, though a push makes no cycles. With a larger number one would take over 10 ms."""


def freeze_startup_objects() -> None:
    """Excludes all objects that exist now from later collections, since they stay for the life of the process.

    To be called once, when the process has started. Later objects (connections, client instances) are collected as
    usual.
    """
    gc.collect()
    gc.freeze()


def collect_seldom() -> None:
    """`freeze_startup_objects`, and makes collections rare, for a process that answers clients.

    It makes few cycles, and no large ones such as those of a failed delivery.
    """
    freeze_startup_objects()
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])

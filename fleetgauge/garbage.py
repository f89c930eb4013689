"""Python's cyclic garbage collector in a process that serves.

A collection looks at objects one by one, and nothing else runs meanwhile. A full one, with what a node has loaded when
it has started, takes from 20 to 100 ms, during which no client is answered.
"""

import gc
from typing import Final

_YOUNG: Final = 10_000
"""A collection starts when so many more objects came than went. At Python's own 700, a few dozen pushes under way start
one, though a push makes no cycles and its objects go by themselves. With more than this, one would take over 10 ms."""


def spare_what_is_there() -> None:
    """Has later collections leave out everything that exists now, since it stays for the life of the process.

    To be called once, when the process has started. What comes afterwards (connections, client instances) is looked at
    as ever.
    """
    gc.collect()
    gc.freeze()


def collect_seldom() -> None:
    """`spare_what_is_there`, and has collections be rare, in a process that clients wait for.

    It makes cycles hardly ever, and none that hold much, as those of a failed delivery may.
    """
    spare_what_is_there()
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])

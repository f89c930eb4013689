"""Python's cyclic garbage collector in a process that serves.

A full collection looks at every object there is, and nothing else runs meanwhile: with what a node has loaded when it
has started that takes from 20 to 100 ms, during which no client is answered.
"""

import gc


def spare_what_is_there() -> None:
    """Has later collections leave out everything that exists now, since it stays for the life of the process.

    To be called once, when the process has started. What comes afterwards (connections, client instances) is looked at
    as ever.
    """
    gc.collect()
    gc.freeze()

"""What a process that we started says to its parent, over its standard output."""

import os
import sys
from typing import IO


def own_output() -> IO[str]:
    """The pipe to the parent, for our words alone: what a plugin prints goes where the log goes."""
    sys.stdout.flush()
    words = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return words

"""The job of a child process as one line, which its parent writes to the child's standard input."""

import base64
import pickle
from typing import Any


def to_line(job: object) -> bytes:
    """A job, made of values that the child knows too."""
    return base64.b64encode(pickle.dumps(job)) + b"\n"


def from_line(line: str) -> Any:
    """The job that the parent process wrote; for its pipe alone, since a pickle may run code."""
    return pickle.loads(base64.b64decode(line))  # noqa: S301  # written by the parent process

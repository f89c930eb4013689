"""The part of a loop that channels and their turns use, by hand."""

import functools
from collections.abc import Callable


class Later:
    """Keeps what is called soon; `run` is one iteration, and returns how many calls it made."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def call_soon(self, call: Callable[..., None], *arguments: object) -> None:
        self.calls.append(functools.partial(call, *arguments))

    def run(self) -> int:
        calls, self.calls = self.calls, []
        for call in calls:
            call()
        return len(calls)

"""How long a supervisor waits until it starts a process again that has ended: longer each time, until one lasts."""

from typing import Final

_FIRST_S: Final = 0.1
_LONGEST_S: Final = 5.0
_CALM_AFTER_MS: Final = 10_000


class RestartDelay:
    """Doubles from 0.1 s to 5 s; begins again after a process that lasted for more than ten seconds.

    >>> delay = RestartDelay()
    >>> [delay.next_s(lasted_ms) for lasted_ms in (100, 100, 100, 60_000)]
    [0.1, 0.2, 0.4, 0.1]
    """

    def __init__(self) -> None:
        self._next_s = _FIRST_S

    def next_s(self, lasted_ms: int) -> float:
        """The delay [s] after a process that lasted so long [ms]."""
        if lasted_ms > _CALM_AFTER_MS:
            self._next_s = _FIRST_S
        delay_s = self._next_s
        self._next_s = min(2 * delay_s, _LONGEST_S)
        return delay_s

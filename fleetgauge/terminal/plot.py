"""Plots of one line."""

from collections.abc import Sequence
from statistics import median
from typing import Final

_BARS: Final = "▁▂▃▄▅▆▇█"
_NOTHING: Final = "·"


def sparkline(values: Sequence[float | None], width: int) -> str:
    """Values from left to right as bars between the least and the most of them; `·` is none.

    More values than `width` [characters] are joined: a bar is the median of its part.

    >>> sparkline([1, 1, None, 4, 8], 10), sparkline([0, 0, 0, 9, 9, 9], 2), sparkline([5, 5], 4)
    ('▁▁·▄█', '▁█', '▁▁')
    """
    count = min(len(values), width)
    parts = [values[len(values) * at // count : len(values) * (at + 1) // count] for at in range(count)]
    known = [[value for value in part if value is not None] for part in parts]
    joined = [median(part) if part else None for part in known]
    least, most = (of((value for value in joined if value is not None), default=0.0) for of in (min, max))
    step = (most - least) / (len(_BARS) - 1)
    return "".join(_NOTHING if each is None else _BARS[round((each - least) / step) if step else 0] for each in joined)

"""Checks of arguments, for the public constructors and methods of the libraries."""

from typing import Any


def check_types(**arguments: tuple[object, Any]) -> None:
    """Refuses arguments of a wrong type before anything is done with them.

    >>> check_types(number=(5, int), time=(5, "hi_res_clock_ms"))
    Traceback (most recent call last):
    TypeError: time needs a method hi_res_clock_ms, which 5 does not have

    Args:
        arguments: by name, the value and what it has to be: a class, a tuple of classes, or the name of a method.

    Raises:
        TypeError: a value is something else.
    """
    for name, (value, kind) in arguments.items():
        if isinstance(kind, str):
            if not callable(getattr(value, kind, None)):
                raise TypeError(f"{name} needs a method {kind}, which {value!r} does not have")
        elif not isinstance(value, kind):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            raise TypeError(f"{name} must be {' or '.join(each.__name__ for each in kinds)}, not {value!r}")

"""Names of principals in the form that metrics and config paths carry them in."""

from urllib.parse import quote, unquote


def sanitize(name: str) -> str:
    """`name` percent-encoded as Kafka's `Sanitizer` does: letters, digits and `.-_` stay.

    A `:` is always encoded, so that sensors' names, which join tags by it, cannot be confused. A lone surrogate
    becomes `%3F`, as in Java.

    >>> sanitize("CN=kafka client,O=*")
    'CN%3Dkafka%20client%2CO%3D%2A'
    """
    return quote(name, safe="", errors="replace").replace("~", "%7E")


def desanitize(name: str) -> str:
    """The name that `sanitize` was given.

    >>> desanitize("CN%3Dkafka%20client%2CO%3D%2A")
    'CN=kafka client,O=*'
    """
    return unquote(name)

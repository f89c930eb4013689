"""Values as texts, as in Kafka's configuration files."""


def kafka_text(value: object) -> str:
    """A value as Kafka writes it: lists with commas, booleans in lower case.

    >>> kafka_text(("a", "b")), kafka_text(True), kafka_text(5)
    ('a,b', 'true', '5')
    """
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)

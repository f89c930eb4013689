"""Values as TOML has them."""

import json
from collections.abc import Iterable


def toml_value(value: object) -> str:
    """A value as TOML has it; lists as Kafka writes them."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, tuple | list):
        value = ",".join(str(item) for item in value)
    text = json.dumps("" if value is None else str(value), ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")  # TOML's basic strings are JSON's, but for DEL


def toml_list(texts: Iterable[str]) -> str:
    """A list of texts as TOML has it."""
    return f"[{', '.join(map(toml_value, texts))}]"

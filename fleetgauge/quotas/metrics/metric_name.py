"""The name of a metric."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_NO_TAGS: Final[Mapping[str, str]] = MappingProxyType({})


class MetricName:
    """Kafka's `MetricName`: equal by name, group and tags; the description is not compared.

    Immutable: the tags are copied. The hash is computed once, since names are keys of the registry.
    """

    __slots__ = ("_hash", "description", "group", "name", "tags")

    def __init__(self, name: str, group: str, description: str = "", tags: Mapping[str, str] = _NO_TAGS) -> None:
        self.name: Final = name
        self.group: Final = group
        self.description: Final = description
        self.tags: Final[Mapping[str, str]] = MappingProxyType(dict(tags))
        self._hash = hash((name, group, frozenset(tags.items())))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MetricName):
            return NotImplemented
        return self.name == other.name and self.group == other.group and self.tags == other.tags

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        tags = ", ".join(f"{key}={value}" for key, value in self.tags.items())
        return f"MetricName [name={self.name}, group={self.group}, description={self.description}, tags={{{tags}}}]"

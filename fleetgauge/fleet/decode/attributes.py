"""Attributes of data points and resources as maps of text."""

from collections.abc import Iterable
from typing import Any, TypeAlias

from fleetgauge.telemetry.catalogue.dialects import text_of

TextMap: TypeAlias = dict[str, str | None]


def text_map(attributes: Iterable[Any]) -> TextMap:
    """The map of some `KeyValue`s; of a repeated key the last one."""
    return {attribute.key: text_of(attribute.value) for attribute in attributes}


class DistinctMaps:
    """Numbers maps; equal ones in the same order alike."""

    def __init__(self) -> None:
        self.maps: list[TextMap] = []
        self._number_of_serialised: dict[tuple[bytes, ...], int] = {}
        self._number_of: dict[tuple[tuple[str, str | None], ...], int] = {}

    def number_of(self, attributes: Iterable[Any]) -> int:
        """The number of the map of some `KeyValue`s, made once for those that are equal."""
        key = tuple([attribute.SerializeToString() for attribute in attributes])
        number = self._number_of_serialised.get(key)
        if number is None:
            number = self._number_of_serialised[key] = self.number(text_map(attributes))
        return number

    def number(self, texts: TextMap) -> int:
        """The number of a map: its index in `maps`."""
        number = self._number_of.setdefault(tuple(texts.items()), len(self.maps))
        if number == len(self.maps):
            self.maps.append(texts)
        return number

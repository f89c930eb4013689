"""The instances in numbered places, so that they can be gone through in slices while they come and go."""

from collections.abc import Iterator

from telemetry.instances.instance import ClientInstance


class InstanceRegister:
    """Gives every instance a place of its own; the places of those that went are used again.

    Whoever goes through the places in several turns meets every instance that was there all the time exactly once. One
    that came or went meanwhile is met or not; one that went and came back may be met twice.
    """

    __slots__ = ("_free", "_places")

    def __init__(self) -> None:
        self._places: list[ClientInstance | None] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        """How many places there are, the empty ones too."""
        return len(self._places)

    def add(self, instance: ClientInstance) -> None:
        """Gives a new instance its place."""
        if self._free:
            instance.place = self._free.pop()
            self._places[instance.place] = instance
        else:
            instance.place = len(self._places)
            self._places.append(instance)

    def remove(self, instance: ClientInstance) -> None:
        """Empties the place of an instance."""
        self._places[instance.place] = None
        self._free.append(instance.place)
        instance.place = -1

    def clear(self) -> None:
        """Forgets everything."""
        self._places.clear()
        self._free.clear()

    def between(self, begin: int, end: int) -> Iterator[ClientInstance]:
        """The instances in the places from `begin` to before `end`. May be used while nothing comes or goes."""
        for instance in self._places[begin:end]:
            if instance is not None:
                yield instance

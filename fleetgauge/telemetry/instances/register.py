"""Client instances by index, for iteration in slices while instances are added and removed."""

from collections.abc import Iterator

from fleetgauge.telemetry.instances.instance import ClientInstance


class InstanceRegister:
    """Assigns an index to every instance; indexes of removed instances are reused.

    An iteration in slices returns every instance that was present all the time exactly once. One that was added or
    removed meanwhile may be missing; one that was removed and added again may appear twice.
    """

    def __init__(self) -> None:
        self._places: list[ClientInstance | None] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        """Number of indexes, including empty ones."""
        return len(self._places)

    def add(self, instance: ClientInstance) -> None:
        """Assigns an index to a new instance."""
        if self._free:
            instance.place = self._free.pop()
            self._places[instance.place] = instance
        else:
            instance.place = len(self._places)
            self._places.append(instance)

    def remove(self, instance: ClientInstance) -> None:
        """Removes an instance; its index becomes empty."""
        self._places[instance.place] = None
        self._free.append(instance.place)
        instance.place = -1

    def clear(self) -> None:
        """Removes all instances."""
        self._places.clear()
        self._free.clear()

    def between(self, begin: int, end: int) -> Iterator[ClientInstance]:
        """Yields the instances in `begin:end`. No instance may be added or removed during the iteration."""
        for instance in self._places[begin:end]:
            if instance is not None:
                yield instance

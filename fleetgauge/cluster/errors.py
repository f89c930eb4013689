"""Errors of resources and of clusters, and parts of their sentences."""

from typing import Final

from fleetgauge.base.errors import FleetgaugeError

_SHOWN_CHARACTERS: Final = 200


class ResourceError(FleetgaugeError):
    """A resource, a file of them, or a request about them is not valid."""


class ClusterError(ResourceError):
    """The cluster does not answer, or refuses the request."""


class NotAuthorizedError(ClusterError):
    """The principal may not do this; the text names the missing ACL."""


def short(text: str) -> str:
    """A text for an error, cut where it is long."""
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."

"""Errors of resources, and of the clusters that have them."""

from fleetgauge.base.errors import FleetgaugeError


class ResourceError(FleetgaugeError):
    """A resource, a file of them, or a request about them is not valid."""


class ClusterError(ResourceError):
    """The cluster does not answer, or refuses the request."""


class NotAuthorizedError(ClusterError):
    """The principal may not do this; the text names the missing ACL."""

"""Kafka's protocol on the wire: framing, encoding, the API table, authentication, connections and the listener."""

from fleetgauge.base.public_names import require_full_name

require_full_name(__name__)

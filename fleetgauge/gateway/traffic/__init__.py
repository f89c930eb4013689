"""Statistics of the traffic that passes a gateway, by client and API."""

"""The HTTP server of every page that Fleetgauge serves: the node's HTTP port and the page of client series."""

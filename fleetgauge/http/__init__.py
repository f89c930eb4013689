"""The HTTP server of every page that Fleetgauge serves: uvicorn's HTTP/1.1 protocol, within bounds."""

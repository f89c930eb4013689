"""The Fleetgauge process: configuration, composition, request handling and the command line."""

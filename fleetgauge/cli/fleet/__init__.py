"""Commands of `fleetgauge fleet`. Nothing here needs an extra until a command runs."""

"""`python -m fleetgauge` is the same as the `fleetgauge` script."""

from fleetgauge.cli import main

main()

"""One subject of the fleet tables explained: its verdicts, its figures over time, its versions and its instances."""

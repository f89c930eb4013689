"""One subject of the standing tables explained: its verdicts, its figures over time, its versions and its instances."""

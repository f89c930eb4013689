"""The standing pipeline: what is new of a source, once, into the tables of `fleet.tables`."""

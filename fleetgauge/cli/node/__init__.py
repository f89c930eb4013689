"""Commands about one node, gateway or export: run it, look at it, check it."""

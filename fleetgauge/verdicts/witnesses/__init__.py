"""Sources beside the wide rows: committed offsets, traffic of gateways, single points, waits for poll()."""

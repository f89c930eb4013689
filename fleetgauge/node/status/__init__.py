"""Administration of a running node: the control socket, the HTTP port, the inventory of clients."""

"""What a running node answers about itself: the control socket, the HTTP port, the inventory of clients."""

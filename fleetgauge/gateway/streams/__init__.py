"""Both directions of a client's connection, and the gateway's own authentication between them."""

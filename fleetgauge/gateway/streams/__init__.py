"""The bytes of a client's connection in either direction, and the gateway's own authentication between them."""

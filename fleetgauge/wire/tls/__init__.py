"""TLS: contexts of servers, certificates of servers and clients, names that clients ask for."""

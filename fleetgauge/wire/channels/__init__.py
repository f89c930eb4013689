"""Connections: the protocol core, its asyncio protocols, and the SASL of a connection."""

"""The processes of a node: configuration, composition, request handling, state, status."""

"""The demo: real clients, the whole pipeline, and a check that the pushes of each client arrive at its end."""

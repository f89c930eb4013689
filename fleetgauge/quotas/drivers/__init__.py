"""Drivers on threads and event loops. The engine itself has neither, and works without them."""

"""What runs the engine: threads and loops. The engine itself has neither, and works without these."""

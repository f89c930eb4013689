"""Output for an operator: progress while Spark works, and the forms of an answer."""

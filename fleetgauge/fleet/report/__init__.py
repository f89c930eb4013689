"""What an operator sees: progress while Spark works, and the ways an answer leaves."""

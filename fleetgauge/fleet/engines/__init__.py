"""Where a job computes: in this process, or on Spark."""

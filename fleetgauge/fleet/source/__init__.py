"""Where a job's points come from: landing zones, their files, and a topic."""

"""Sources of a job's pushes: landing zones, their files, and topics."""

"""The node process and its child processes with their supervisors: exporters, workers, the HTTP port."""

"""Child processes and their supervisors: exporters, workers, the HTTP port."""

"""The pipeline: processes new input of a source into `fleet.tables`, exactly once."""

"""The statistics that a `quotas.sensor.Sensor` can hold, one family a file."""

"""The fleet as DataFrames of PySpark, in a session of one's own: readers, and a data source, also of streams."""

from fleetgauge.spark.data_source import decode_topic, register
from fleetgauge.spark.readers import (
    SESSION_OPTIONS,
    Frames,
    Selection,
    TopicSource,
    read_points,
    read_pushes,
    read_windows,
)

__all__ = [
    "SESSION_OPTIONS",
    "Frames",
    "Selection",
    "TopicSource",
    "decode_topic",
    "read_points",
    "read_pushes",
    "read_windows",
    "register",
]

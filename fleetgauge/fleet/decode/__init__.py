"""From OTLP payloads to columns: `flat` what is read, by `by_bytes` (compiled `wire`) or `by_protobuf` with the same
result, `attributes` their text, `payloads` a batch of pushes, `stage` the step on Spark's executors.
"""

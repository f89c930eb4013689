"""From OTLP payloads to columns: `descriptor` what is read, `by_ptars` and `by_protobuf` two readers of it with the
same result, `attributes` their text, `payloads` a batch of pushes, `stage` the step on Spark's executors.
"""

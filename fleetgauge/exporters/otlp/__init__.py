"""The exporter `otlp`: labelled pushes over gRPC or HTTP to an OpenTelemetry collector."""

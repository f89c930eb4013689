"""The HTTP port (extra `http`): /healthz, /readyz, /metrics and /clients of a running node, in a process of its own."""

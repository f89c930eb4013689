"""The quotas of a cluster or node: `limits` is pure; `cluster` talks to the cluster, `usage` reads fleet tables."""

"""The quotas of a cluster or node: read and changed over its Admin API, compared with a file, and how far they are
used.

`planning` is pure; `cluster` talks to the cluster, `usage` reads standing tables.
"""

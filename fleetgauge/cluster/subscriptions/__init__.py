"""Client-metrics subscriptions of a cluster or node: their effect on live clients, canaries, deadlines.

`cluster` alone opens connections; the rest are pure functions, but for `tables`.
"""

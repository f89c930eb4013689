"""Client-metrics subscriptions of a cluster or node, over its Admin API: list, plan, apply, canary, expiry.

`service.Subscriptions` is the interface for the command line and the console's API. What changes, and what a change
does to the clients, are pure functions (`planning`); `cluster` alone opens connections.
"""

"""Client-metrics subscriptions: the metrics and push interval requested from each client."""

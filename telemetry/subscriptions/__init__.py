"""Client-metrics subscriptions: which client is asked for which metrics, at which interval."""

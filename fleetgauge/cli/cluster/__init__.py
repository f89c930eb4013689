"""Commands about clusters and their clients: subscriptions, quotas, clients."""

"""Subscriptions and quotas of Kafka clusters: read, planned and applied through their Admin API.

`plan.Kind` is the interface: `subscriptions.resources.SUBSCRIPTIONS`, `quotas.limits.QUOTAS`.
"""

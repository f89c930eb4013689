"""Client telemetry (KIP-714): instances, subscriptions, gating, codecs, validation, push records, plugins."""

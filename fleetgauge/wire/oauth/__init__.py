"""OAUTHBEARER tokens: where the keys that sign them come from, and the check of a token (KIP-255, KIP-768)."""

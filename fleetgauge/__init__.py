"""Fleetgauge: how every client of a Kafka fleet is doing, and whom to call first (KIP-714)."""

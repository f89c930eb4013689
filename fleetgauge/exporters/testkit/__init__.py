"""Test kits: the conformance suite for exporters, and an OTLP receiver for demonstrations."""

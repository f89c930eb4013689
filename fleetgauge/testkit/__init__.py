"""Test kits: the conformance suite for exporters, an OTLP receiver, and the simulator of fleets."""
